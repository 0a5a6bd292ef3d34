package damage

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// kind is a kind of file or folder of a fixture.
type kind struct {
	part   string
	name   string         // for people, and for the table of what can't be known
	path   *regexp.Regexp // below the part
	folder bool
}

// kinds are what is damaged. A kind is drawn first and then one of its files, so that rare ones are not passed over.
var kinds = []kind{
	fileKind(remotePart, `.*\.log`), fileKind(remotePart, `.*\.index`), fileKind(remotePart, `.*\.timeindex`), fileKind(remotePart, `.*\.txnindex`),
	fileKind(remotePart, `.*\.snapshot`), fileKind(remotePart, `.*\.leader_epoch_checkpoint`),
	folderKind(remotePart, `kafka-tiered-storage/[^/]+`),
	fileKind(localPart, `.*/.*\.log`), fileKind(localPart, `.*/.*\.index`), fileKind(localPart, `.*/.*\.timeindex`), fileKind(localPart, `.*/.*\.txnindex`),
	fileKind(localPart, `.*/.*\.snapshot`), fileKind(localPart, `.*/leader-epoch-checkpoint`), fileKind(localPart, `.*/partition\.metadata`),
	fileKind(localPart, `log-start-offset-checkpoint`), fileKind(localPart, `replication-offset-checkpoint`),
	fileKind(localPart, `(recovery-point|cleaner)-offset-checkpoint`), fileKind(localPart, `meta\.properties`),
	folderKind(localPart, `[^/]+-[0-9]+`),
	fileKind(metadataPart, `.*\.log`), fileKind(metadataPart, `.*(\.index|\.timeindex|\.snapshot|leader-epoch-checkpoint|partition\.metadata)`),
	folderKind(metadataPart, `__remote_log_metadata-[0-9]+`),
	fileKind(cachePart, `remote-log-index-cache/.*`),
}

func fileKind(part, pattern string) kind {
	return kind{part: part, name: part + " " + pattern, path: regexp.MustCompile("^" + pattern + "$")}
}

func folderKind(part, pattern string) kind {
	k := fileKind(part, pattern)
	k.folder = true
	return k
}

// find lists the kind's files below a fixture, in an order.
func (k kind) find(dir string) ([]string, error) {
	var out []string
	base := filepath.Join(dir, k.part)
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, path)
		if err == nil && d.IsDir() == k.folder && k.path.MatchString(filepath.ToSlash(rel)) {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// damaged is a file that was damaged.
type damaged struct {
	kind     string
	mutation string
	path     string // below the fixture
	what     string
}

func (d damaged) String() string { return fmt.Sprintf("%s: %s", d.path, d.what) }

// damageOne damages one file of those parts. It draws again where a kind has no file, or a mutation changes nothing.
func damageOne(r *rand.Rand, dir string, among []string) (damaged, error) {
	for {
		k := kinds[r.IntN(len(kinds))]
		files, err := k.find(dir)
		if err != nil {
			return damaged{}, err
		}
		if !contains(among, k.part) || len(files) == 0 {
			continue
		}
		path, ways := files[r.IntN(len(files))], mutations
		if k.folder {
			ways = directoryMutations
		}
		m := ways[r.IntN(len(ways))]
		before, _ := os.Lstat(path)
		if !k.folder && before != nil && !before.Mode().IsRegular() {
			continue // another damage was here
		}
		what, err := m.do(r, path, files)
		if err != nil {
			return damaged{}, err
		}
		if what == "" {
			continue
		}
		rel, err := filepath.Rel(dir, path)
		return damaged{k.name, m.name, rel, strings.ReplaceAll(what, dir+string(filepath.Separator), "")}, err
	}
}

func contains(all []string, one string) bool {
	for _, a := range all {
		if a == one {
			return true
		}
	}
	return false
}

// bindSocket leaves a socket that nobody listens at. Its path may be longer than an address can be: it is made elsewhere.
func bindSocket(path string) error {
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		return err
	}
	defer os.RemoveAll(short)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	return os.Rename(filepath.Join(short, "s"), path)
}
