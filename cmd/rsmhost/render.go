package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeJSON writes one indented document and a line end.
func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// writeTable writes rows in columns, two spaces apart, under a head where there is one. The last column is not padded.
func writeTable(w io.Writer, head []string, rows [][]string) error {
	all := rows
	if head != nil {
		all = append([][]string{head}, rows...)
	}
	var widths []int
	for _, r := range all {
		for i, cell := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b bytes.Buffer
	for _, r := range all {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(cell)
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// printable shows bytes for people: as text where they are, with what a terminal would act on escaped; null and empty
// differ. max bounds the runes that are shown.
func printable(b []byte, max int) string {
	switch {
	case b == nil:
		return "null"
	case len(b) == 0:
		return `""`
	case !utf8.Valid(b):
		if len(b) > max/2 {
			return fmt.Sprintf("0x%x... (%d bytes)", b[:max/2], len(b))
		}
		return fmt.Sprintf("0x%x", b)
	}
	var out strings.Builder
	n := 0
	for _, r := range string(b) {
		if n++; n > max {
			fmt.Fprintf(&out, "... (%d bytes)", len(b))
			break
		}
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		out.WriteString(strings.Trim(fmt.Sprintf("%q", r), "'"))
	}
	return out.String()
}

// isTerminal reports whether w is one that shows colours.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
