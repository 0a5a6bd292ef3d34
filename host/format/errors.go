package format

import "github.com/rsmhost/rsmhost/abi"

// op is the operation in this package's errors.
const op = "parse"

func corrupt(subject, format string, args ...any) error {
	return abi.Errorf(op, subject, abi.Corrupt, format, args...)
}

func unsupported(subject, format string, args ...any) error {
	return abi.Errorf(op, subject, abi.Unsupported, format, args...)
}

func invalid(subject, format string, args ...any) error {
	return abi.Errorf("encode", subject, abi.Invalid, format, args...)
}
