package replay

import (
	"strings"
	"testing"
)

// TestShown: two byte strings that differ are shown so that the difference is seen, however far behind it lies, and a text is
// not cut within a character.
func TestShown(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	for name, tt := range map[string]struct {
		b, other     []byte
		want, beside string
	}{
		"short":          {[]byte("a"), []byte("b"), `"a"`, `"b"`},
		"null":           {nil, []byte{}, "null", `""`},
		"no text":        {[]byte{0xff}, []byte{0xfe}, "0xff", "0xfe"},
		"at the begin":   {[]byte("x" + long), []byte("y" + long), `"x` + long[:63] + `"... (201 bytes)`, `"y` + long[:63] + `"... (201 bytes)`},
		"at byte 100":    {[]byte(long[:100] + "x" + long[:99]), []byte(long[:100] + "y" + long[:99]), `..."` + long[84:100] + "x" + long[:47] + `"... (200 bytes, from byte 84)`, `..."` + long[84:100] + "y" + long[:47] + `"... (200 bytes, from byte 84)`},
		"at the end":     {[]byte(long + "x"), []byte(long + "y"), `..."` + long[137:] + `x" (201 bytes, from byte 137)`, `..."` + long[137:] + `y" (201 bytes, from byte 137)`},
		"one goes on":    {[]byte(long), []byte(long + "y"), `..."` + long[136:] + `" (200 bytes, from byte 136)`, `..."` + long[137:] + `y" (201 bytes, from byte 137)`},
		"one is short":   {[]byte(long), []byte("0"), `"` + long[:64] + `"... (200 bytes)`, `"0"`},
		"equal":          {[]byte(long), []byte(long), `"` + long[:64] + `"... (200 bytes)`, `"` + long[:64] + `"... (200 bytes)`},
		"cut characters": {[]byte("a" + strings.Repeat("é", 60) + "x"), []byte("a" + strings.Repeat("é", 60) + "y"), `..."` + strings.Repeat("é", 31) + `x" (122 bytes, from byte 59)`, `..."` + strings.Repeat("é", 31) + `y" (122 bytes, from byte 59)`},
		"cut at the end": {[]byte("a" + strings.Repeat("é", 60)), []byte("b"), `"a` + strings.Repeat("é", 31) + `"... (121 bytes)`, `"b"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shown(tt.b, tt.other); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := shown(tt.other, tt.b); got != tt.beside {
				t.Errorf("beside it: got %s, want %s", got, tt.beside)
			}
		})
	}
}
