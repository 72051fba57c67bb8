package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// Fraction declares a flag for a fraction above 0 and at most 1.
func (f *FlagSet) Fraction(target *float64, names, usage string) {
	f.Value(names, "FRACTION", usage, func(s string) error {
		x, err := ParseFraction(s)
		if err != nil || x == 0 {
			return fmt.Errorf("must be above 0 and at most 1, not %q", s)
		}
		*target = x
		return nil
	})
}

// Percent declares a flag for a percentage above 0, which target holds as a fraction.
func (f *FlagSet) Percent(target *float64, names, usage string) {
	f.Value(names, "PERCENT", usage, func(s string) error {
		n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
		if err != nil || !(n > 0 && n <= 100) {
			return fmt.Errorf("must be a percentage such as 50%%, not %q", s)
		}
		*target = n / 100
		return nil
	})
}

// ParseFraction parses a number from 0 to 1.
func ParseFraction(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("must be a number from 0 to 1, not %q", s)
	}
	return x, nil
}

// OptionalValue declares a flag whose value may be left out; it is then empty. The next argument is its value
// unless it begins with a dash.
func (f *FlagSet) OptionalValue(name, placeholder, usage string, set func(string) error) {
	f.Registry.Var(optionalValue(set), name, usage)
	f.describe(name, " ["+placeholder+"]", usage)
}

// optionalValue is the flag.Value of a flag whose value may be left out.
type optionalValue func(string) error

// Set implements flag.Value.
func (v optionalValue) Set(s string) error { return v(s) }

// String implements flag.Value.
func (optionalValue) String() string { return "" }

// ValueIsOptional distinguishes the flag for tests.
func (optionalValue) ValueIsOptional() bool { return true }
