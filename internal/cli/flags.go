package cli

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/internal/toml"
)

// A FlagSet holds the flags of one command. It adds to the standard library's flags: a flag may
// have a short and a long name, flags may stand before or after the other arguments, an unknown
// name suggests the nearest one, and the help shows flags in groups.
type FlagSet struct {
	Registry *flag.FlagSet
	groups   []flagGroup
	// everyday lists the flags of the short help; without any, the help shows all flags.
	everyday []everydayFlag
	help     bool // -h or --help was given
	helpAll  bool // --help-all was given
	settings []*Setting
	given    map[string]bool // the flags of the command line, by the names that it has
}

type flagGroup struct {
	title string
	flags []flagHelp
}

type flagHelp struct {
	names       string // as in the help: "-m, --model FILE"
	usage       string
	list        []string  // names without dashes
	value       bool      // a value follows
	placeholder string    // of the value, without brackets
	choices     []string  // its values, if they are few
	kind        toml.Kind // of its value in a file of settings
}

// NewFlagSet returns a set with only -h, --help and --help-all.
func NewFlagSet() *FlagSet {
	f := &FlagSet{Registry: flag.NewFlagSet("", flag.ContinueOnError), given: map[string]bool{}}
	show := func(string) error { f.help = true; return nil }
	f.Registry.BoolFunc("h", "", show)
	f.Registry.BoolFunc("help", "", show)
	f.Registry.BoolFunc("help-all", "", func(string) error { f.helpAll = true; return nil })
	return f
}

// An everydayFlag is a flag of the short help. usage, if not empty, replaces its explanation.
type everydayFlag struct{ name, usage string }

// Everyday sets the flags of the short help, in order. A colon and a shorter explanation may
// follow each name.
func (f *FlagSet) Everyday(flags ...string) {
	for _, flag := range flags {
		name, usage, _ := strings.Cut(flag, ": ")
		f.everyday = append(f.everyday, everydayFlag{name, usage})
	}
}

// find returns the help of the flag with a name.
func (f *FlagSet) find(name string) (flagHelp, bool) {
	for _, group := range f.groups {
		for _, h := range group.flags {
			if slices.Contains(h.list, name) {
				return h, true
			}
		}
	}
	return flagHelp{}, false
}

// Group starts a group of flags in the help.
func (f *FlagSet) Group(title string) {
	f.groups = append(f.groups, flagGroup{title: title})
}

// Value declares a flag with a value. Spaces separate names; placeholder stands for the value in
// the help; set checks and stores the value.
func (f *FlagSet) Value(names, placeholder, usage string, set func(string) error) {
	for _, name := range strings.Fields(names) {
		f.Registry.Func(name, usage, set)
	}
	f.describe(names, " "+placeholder, usage, toml.String)
}

// Toggle declares a flag without a value; --name=false unsets it.
func (f *FlagSet) Toggle(target *bool, names, usage string) {
	for _, name := range strings.Fields(names) {
		f.Registry.BoolFunc(name, usage, func(s string) error {
			on, err := strconv.ParseBool(s)
			if err != nil {
				return fmt.Errorf("must be true or false, not %q", s)
			}
			*target = on
			return nil
		})
	}
	f.describe(names, "", usage, toml.Boolean)
}

func (f *FlagSet) describe(names, placeholder, usage string, kind toml.Kind) {
	var spelled []string
	for _, name := range strings.Fields(names) {
		spelled = append(spelled, dashed(name))
	}
	last := &f.groups[len(f.groups)-1]
	last.flags = append(last.flags, flagHelp{names: strings.Join(spelled, ", ") + placeholder, usage: usage, list: strings.Fields(names), value: placeholder != "", placeholder: strings.Trim(placeholder, " []"), kind: kind})
}

// last returns the help of the flag that was declared last.
func (f *FlagSet) last() *flagHelp {
	group := &f.groups[len(f.groups)-1]
	return &group.flags[len(group.flags)-1]
}

// Text declares a flag whose value is any text but the empty one. An empty value is probably an
// unset variable of a script.
func (f *FlagSet) Text(target *string, names, placeholder, usage string) {
	f.Value(names, placeholder, usage, func(s string) error {
		if s == "" {
			return errEmpty
		}
		*target = s
		return nil
	})
}

var errEmpty = errors.New("must not be empty")

// Choice declares a flag whose value is one of a list. An empty value stands for the default.
func (f *FlagSet) Choice(target *string, names, placeholder, usage string, choices ...string) {
	f.Value(names, placeholder, usage, func(s string) error {
		if s != "" && !slices.Contains(choices, s) {
			return fmt.Errorf("must be %s, not %q", Either(choices), s)
		}
		*target = s
		return nil
	})
	f.last().choices = choices
}

// Either joins the names of alternatives: "a, b or c".
func Either(names []string) string { return join(names, " or ") }

// All joins names: "a, b and c".
func All(names []string) string { return join(names, " and ") }

// join joins names with commas, and the last one with a word.
func join(names []string, word string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + word + names[last]
}

// OptionalText is Text for a flag whose empty value differs from no value.
func (f *FlagSet) OptionalText(target **string, names, placeholder, usage string) {
	f.Value(names, placeholder, usage, func(s string) error { *target = &s; return nil })
}

// List declares a flag that may be given several times.
func (f *FlagSet) List(target *[]string, names, placeholder, usage string) {
	f.Value(names, placeholder, usage, func(s string) error {
		if s == "" {
			return errEmpty
		}
		*target = append(*target, s)
		return nil
	})
}

// Count declares a flag for a whole number from low to high; "4K" means 4096.
func (f *FlagSet) Count(target *int, names, placeholder, usage string, low, high int) {
	f.Value(names, placeholder, usage, func(s string) error {
		n, err := parseCount(s, low, high)
		if err == nil {
			*target = n
		}
		return err
	})
	f.last().kind = toml.Integer
}

// Counts declares a flag for a list of whole numbers, separated by commas.
func (f *FlagSet) Counts(target *[]int, names, usage string, low, high int) {
	f.Value(names, "LIST", usage, func(s string) error {
		var list []int
		for field := range strings.SplitSeq(s, ",") {
			n, err := parseCount(strings.TrimSpace(field), low, high)
			if err != nil {
				return err
			}
			list = append(list, n)
		}
		*target = list
		return nil
	})
}

// OptionalCount is Count for a flag whose default comes from the model.
func (f *FlagSet) OptionalCount(target **int, names, usage string, low, high int) {
	f.Value(names, "N", usage, func(s string) error {
		n, err := parseCount(s, low, high)
		if err == nil {
			*target = &n
		}
		return err
	})
	f.last().kind = toml.Integer
}

// OptionalNumber declares a flag for a number from low to high whose default
// comes from the model.
func (f *FlagSet) OptionalNumber(target **float32, names, usage string, low, high float64) {
	f.Value(names, "X", usage, func(s string) error {
		x, err := strconv.ParseFloat(s, 32)
		// The comparison also fails for NaN.
		if err != nil || !(x >= low && x <= high) {
			return fmt.Errorf("must be a number from %v to %v, not %q", low, high, s)
		}
		value := float32(x)
		*target = &value
		return nil
	})
	f.last().kind = toml.Float
}

// parseCount parses a whole number from low, which is at least 0, to high. The suffix K
// multiplies by 1024.
func parseCount(s string, low, high int) (int, error) {
	digits, unit := s, 1
	if strings.HasSuffix(s, "K") || strings.HasSuffix(s, "k") {
		digits, unit = s[:len(s)-1], 1024
	}
	n, err := strconv.Atoi(digits)
	tooLarge := n > high/unit // also for ErrRange, with which n is the largest integer
	switch {
	case err == nil && n >= 0 && !tooLarge && n*unit >= low:
		return n * unit, nil
	case high == math.MaxInt32 && !tooLarge:
		return 0, fmt.Errorf("must be a whole number of at least %d, not %q", low, s)
	}
	return 0, fmt.Errorf("must be a whole number from %d to %d, not %q", low, high, s)
}

// Parse sets the flags in args and returns the other arguments. Everything after "--" is an
// argument.
func (f *FlagSet) Parse(args []string) (positional []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return append(positional, args...), nil
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			positional = append(positional, arg)
		default:
			if args, err = f.parseFlag(arg, args); err != nil {
				return nil, err
			}
		}
	}
	return positional, nil
}

// parseFlag sets the flag of arg and returns the arguments after the flag and its value.
func (f *FlagSet) parseFlag(arg string, rest []string) ([]string, error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	known := f.Registry.Lookup(name)
	if letter, attached := f.attachedNumber(arg); known == nil && attached {
		known, name, value, hasValue = f.Registry.Lookup(letter), letter, arg[2:], true
	}
	if known == nil {
		return nil, f.unknownFlag(arg, name)
	}
	if !hasValue {
		if b, ok := known.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			value = "true"
		} else if _, ok := known.Value.(optionalValue); ok && (len(rest) == 0 || strings.HasPrefix(rest[0], "-")) {
			value = ""
		} else if len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		} else {
			return nil, Usagef("%s needs a value", dashed(name))
		}
	}
	if err := known.Value.Set(value); err != nil {
		return nil, Usagef("%s: %v", dashed(name), err)
	}
	f.noteGiven(name)
	return rest, nil
}

// attachedNumber returns the flag of a letter to which its number is attached, as in -n5.
func (f *FlagSet) attachedNumber(arg string) (letter string, attached bool) {
	if len(arg) < 3 || arg[0] != '-' || arg[2] < '0' || arg[2] > '9' {
		return "", false
	}
	known := f.Registry.Lookup(arg[1:2])
	if known == nil {
		return "", false
	}
	toggle, ok := known.Value.(interface{ IsBoolFlag() bool })
	return arg[1:2], !ok || !toggle.IsBoolFlag()
}

func (f *FlagSet) unknownFlag(arg, name string) error {
	spelled, _, _ := strings.Cut(arg, "=")
	if habit := foreignFlagHint(name, f.Registry); habit != "" {
		return Usagef("there is no flag %s%s", spelled, habit)
	}
	var names []string
	f.Registry.VisitAll(func(known *flag.Flag) { names = append(names, known.Name) })
	near := Nearest(name, names)
	if near == "" {
		near = f.mistypedForeignFlag(name)
	}
	if near != "" {
		return Usagef("there is no flag %s; did you mean %s?", spelled, dashed(near))
	}
	return &UsageError{Message: "there is no flag " + spelled, unknown: name}
}

// mistypedForeignFlag returns our flag for a mistyped flag of another program, or "". Only a
// slip counts as mistyped, because the user cannot see the candidates.
func (f *FlagSet) mistypedForeignFlag(name string) string {
	if _, known := ForeignFlags[name]; known {
		return "" // spelled correctly, but the command has no such flag
	}
	for _, theirs := range slices.Sorted(maps.Keys(ForeignFlags)) {
		ours := ForeignFlags[theirs]
		if len(theirs) > 3 && f.Registry.Lookup(ours) != nil && editDistance(name, theirs) <= max(1, len(theirs)/5) {
			return ours
		}
	}
	return ""
}

// dashed adds dashes to the name of a flag: one for a letter, two for a word.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

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
	f.describe(name, " ["+placeholder+"]", usage, toml.String)
}

// optionalValue is the flag.Value of a flag whose value may be left out.
type optionalValue func(string) error

// Set implements flag.Value.
func (v optionalValue) Set(s string) error { return v(s) }

// String implements flag.Value.
func (optionalValue) String() string { return "" }

// ValueIsOptional distinguishes the flag for tests.
func (optionalValue) ValueIsOptional() bool { return true }
