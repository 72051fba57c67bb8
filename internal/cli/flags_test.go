package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// testFlags declares one flag of each kind.
type testFlags struct {
	name   string
	quiet  bool
	number int
	ratio  *float32
	many   []string
}

func (v *testFlags) declare() *FlagSet {
	f := NewFlagSet()
	f.Group("All")
	f.Text(&v.name, "m model", "PATH", "a path")
	f.Toggle(&v.quiet, "q quiet", "no output")
	f.Count(&v.number, "n", "N", "a count", 1, 4096)
	f.OptionalNumber(&v.ratio, "ratio", "a ratio", 0, 1)
	f.List(&v.many, "stop", "TEXT", "a list")
	return f
}

// TestParseFlags checks the spellings of flags and the values that they set.
func TestParseFlags(t *testing.T) {
	half := float32(0.5)
	tests := []struct {
		name string
		args []string
		want testFlags
		rest []string
	}{
		{"nothing", nil, testFlags{}, nil},
		{"short and long names", []string{"-m", "a", "--quiet", "-n", "3"}, testFlags{name: "a", quiet: true, number: 3}, nil},
		{"one or two dashes", []string{"-model", "a", "--q"}, testFlags{name: "a", quiet: true}, nil},
		{"equals sign", []string{"--model=a=b", "--quiet=false"}, testFlags{name: "a=b"}, nil},
		{"flags after arguments", []string{"x", "-n", "3", "y", "-q"}, testFlags{number: 3, quiet: true}, []string{"x", "y"}},
		{"a value that looks like a flag", []string{"-m", "-q"}, testFlags{name: "-q"}, nil},
		{"two dashes end the flags", []string{"-q", "--", "-n", "--", "x"}, testFlags{quiet: true}, []string{"-n", "--", "x"}},
		{"one dash is an argument", []string{"-", "-q"}, testFlags{quiet: true}, []string{"-"}},
		{"thousands", []string{"-n", "4K"}, testFlags{number: 4096}, nil},
		{"a number behind its letter", []string{"-n5", "-q"}, testFlags{number: 5, quiet: true}, nil},
		{"thousands behind the letter", []string{"-n4K"}, testFlags{number: 4096}, nil},
		{"number", []string{"--ratio", "0.5"}, testFlags{ratio: &half}, nil},
		{"repeated", []string{"--stop", "a", "--stop", "b"}, testFlags{many: []string{"a", "b"}}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got testFlags
			rest, err := got.declare().Parse(test.args)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.rest, rest)
		})
	}
}

// TestParseFlagsRefuses checks the errors for unknown flags and bad values.
func TestParseFlagsRefuses(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown, near a known one", []string{"--mdoel", "a"}, "there is no flag --mdoel; did you mean --model?"},
		{"unknown with a value", []string{"--ratoi=1"}, "there is no flag --ratoi; did you mean --ratio?"},
		{"unknown, near nothing", []string{"--zzzzzzzz"}, "there is no flag --zzzzzzzz"},
		{"too large behind its letter", []string{"-n5K"}, `-n: must be a whole number from 1 to 4096, not "5K"`},
		{"a number behind a toggle", []string{"-q5"}, "there is no flag -q5"},
		{"a word behind a letter", []string{"-nx"}, "there is no flag -nx"},
		{"no value", []string{"-m"}, "-m needs a value"},
		{"not a number", []string{"-n", "many"}, `-n: must be a whole number from 1 to 4096, not "many"`},
		{"too small", []string{"-n", "0"}, `-n: must be a whole number from 1 to 4096, not "0"`},
		{"too large", []string{"-n", "5K"}, `-n: must be a whole number from 1 to 4096, not "5K"`},
		{"a product that overflows", []string{"-n", "9223372036854775807K"}, `-n: must be a whole number from 1 to 4096, not "9223372036854775807K"`},
		{"a negative product that overflows", []string{"-n", "-9223372036854775807K"}, `-n: must be a whole number from 1 to 4096, not "-9223372036854775807K"`},
		{"NaN", []string{"--ratio", "NaN"}, `--ratio: must be a number from 0 to 1, not "NaN"`},
		{"out of range", []string{"--ratio", "1.5"}, `--ratio: must be a number from 0 to 1, not "1.5"`},
		{"neither true nor false", []string{"-q=maybe"}, `-q: must be true or false, not "maybe"`},
		{"empty element", []string{"--stop", ""}, "--stop: must not be empty"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got testFlags
			_, err := got.declare().Parse(test.args)
			var usage *UsageError
			require.ErrorAs(t, err, &usage)
			require.Equal(t, test.want, usage.Message)
		})
	}
}
