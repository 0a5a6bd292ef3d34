package damage

import "regexp"

// unknowns are damages after which a wrong answer can't be told from a right one, with the reason. The damage of a row is the only
// one of its scene.
var unknowns = []struct {
	kind     *regexp.Regexp // of kinds' names
	mutation *regexp.Regexp
	why      string
}{}

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
