package coordinator

import (
	"fmt"
	"regexp/syntax"
)

const (
	// maxRegex is the bytes of a subscription's pattern. Kafka has no bound but that of a request.
	maxRegex = 4096
	// maxRegexSteps is how much a pattern may be when its repetitions are written out. A name of topics takes some 249 steps.
	maxRegexSteps = 20_000
	// stepBytes is what a step takes when it is compiled: 6 to 67 bytes, measured over patterns of all kinds. Of a pattern of fewer
	// than onePassSteps Go makes a second program, which takes up to onePassBytes a step.
	stepBytes    = 72
	onePassSteps = 1000
	onePassBytes = 160
)

// checkRegex refuses a pattern that is dear to compile and to hold: "(...){1000}" is a thousand times what it says, 80 MB of
// 2 KiB. kfake compiles what it is given, keeps it with the member, and matches each topic with it between all else that
// it does. What is no pattern by itself is refused too: kfake puts it between "^(?:" and ")$", where "a)|...|(?:b" becomes
// one, of any size. bytes is what it takes when it is compiled.
func checkRegex(pattern string) (bytes int64, err error) {
	if len(pattern) > maxRegex {
		return 0, fmt.Errorf("the pattern has %d bytes, and at most %d are taken", len(pattern), maxRegex)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("it is no pattern: %w", err)
	}
	n := steps(re)
	if n > maxRegexSteps {
		return 0, fmt.Errorf("the pattern is too large: with its repetitions written out it has %d steps, and at most %d are taken", n, maxRegexSteps)
	}
	return 2048 + int64(len(pattern)) + n*stepBytes + min(n, onePassSteps)*onePassBytes, nil
}

// steps is about how many instructions a pattern is compiled to.
func steps(re *syntax.Regexp) int64 {
	n := int64(1 + len(re.Rune)) // also of a class, whose ranges an instruction holds
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= int64(max(re.Min, re.Max, 1))
	}
	return n
}
