package damage

import "regexp"

// unknowns are damages after which a wrong answer can't always be told from a right one, with the reason. What goes wrong is logged
// and counted; a crash, a hang or too much memory is none of it.
var unknowns = []struct {
	kind     *regexp.Regexp // of kinds' names
	mutation *regexp.Regexp
	why      string
}{
	{regexp.MustCompile(`^local .*snapshot`), regexp.MustCompile(`^(swap|copy of a sibling)$`),
		"a producer snapshot has a CRC and does not say at which offset it was taken: another one's open transactions are believed"},
	{regexp.MustCompile(`^local .*log$`), regexp.MustCompile(`^duplicate a batch$`),
		"a local log may leave out offsets between whole batches, as compaction does at this broker or at the leader that it copied from"},
	{regexp.MustCompile(`^local .*-\[0-9\]\+$`), regexp.MustCompile(`^swap$`),
		"no record and no file beside it names the partition: two of one topic whose folders change places are each the other, as far as the checkpoints fit"},
}

// unknowable says why what was answered wrongly could not be known to be wrong.
func unknowable(d *scene) (why string, ok bool) {
	for _, u := range unknowns {
		for _, f := range d.damages {
			if u.kind.MatchString(f.kind) && u.mutation.MatchString(f.mutation) {
				return u.why, true
			}
		}
	}
	return "", false
}
