package access

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// eachLine gives the words of each line that has some, with its number. A "#" at the start of a word begins a comment; a
// word in double quotes may hold blanks and "#". An error names the line.
func eachLine(text []byte, do func(words []string) error) error {
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		words, err := split(string(line))
		if err == nil && len(words) > 0 {
			err = do(words)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

func split(line string) (words []string, err error) {
	if !utf8.ValidString(line) {
		return nil, errors.New("it is not UTF-8")
	}
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" || line[0] == '#' {
			return words, nil
		}
		var word string
		if line[0] == '"' {
			end := strings.IndexByte(line[1:], '"')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			word, line = line[1:1+end], line[2+end:]
			if line != "" && !unicode.IsSpace(rune(line[0])) {
				return nil, fmt.Errorf("a blank is wanted behind %q", word)
			}
		} else if end := strings.IndexFunc(line, unicode.IsSpace); end >= 0 {
			word, line = line[:end], line[end:]
		} else {
			word, line = line, ""
		}
		words = append(words, word)
	}
}
