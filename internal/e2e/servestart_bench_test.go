package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os/exec"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// manySegments writes 10,000 segments of 100 partitions: their metadata, and where local is set their files too.
func manySegments(b *testing.B, local bool) (flags []string) {
	b.Helper()
	const topics, each = 100, 100
	meta, dir := b.TempDir(), b.TempDir()
	var events []any
	for t := range topics {
		id := abi.TopicIDPartition{Topic: fmt.Sprintf("topic-%03d", t), TopicID: kafkabytes.ID(byte(t + 1))}
		var segs []*kafkabytes.Segment
		for n := range int64(each) {
			s := kafkabytes.NewSegment(b, id, 1, kafkabytes.Batch{Base: n * 10, Last: n*10 + 9})
			binary.BigEndian.PutUint64(s.Meta.SegmentID[:], uint64(t*each+int(n)+1))
			segs = append(segs, s)
		}
		events = append(events, kafkabytes.Finished(segs...)...)
		if local {
			kafkabytes.WriteLog(b, dir, id, segs...)
		}
	}
	kafkabytes.WriteMetadata(b, meta, events...)
	flags = []string{"--metadata", "dir:" + meta, "--plugin", artifacts(b).process, "--plugin-config", "root=" + b.TempDir()}
	if local {
		flags = append(flags, "--log-dir", dir)
	}
	return flags
}

// BenchmarkServeStart measures `rsmhost serve` from nothing to the line with its address, on 10,000 segments.
func BenchmarkServeStart(b *testing.B) {
	for name, local := range map[string]bool{"remote": false, "both": true} {
		b.Run(name, func(b *testing.B) {
			flags := append([]string{"serve", "--listen", "127.0.0.1:0", "--cache-dir", b.TempDir(), "--state-dir", b.TempDir()}, manySegments(b, local)...)
			for b.Loop() {
				cmd := exec.Command(artifacts(b).host, flags...)
				out, err := cmd.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line == "" {
					b.Fatalf("no address: %v", err)
				}
				b.StopTimer()
				cmd.Process.Kill()
				cmd.Wait()
				b.StartTimer()
			}
		})
	}
}
