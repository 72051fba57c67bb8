package toml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParse reads everything that is supported.
func TestParse(t *testing.T) {
	entries, err := Parse("\ufeff# settings\r\n" + `
model = "qwen" # a name
path = 'C:\models\x'	
empty=""
escaped = "a\tb\"c\\d\u00e9\U0001F600#"
ctx = 8_192
hex = 0xff
minus = -3
plus = +4
temp = 0.3
large = +1e3
small = -1_0.5E-2
on = true
[serve] # another table
off = false
model = 'a#b'
[ chat ]
`)
	require.NoError(t, err)
	require.Equal(t, []Entry{
		{"", "model", String, "qwen", 3},
		{"", "path", String, `C:\models\x`, 4},
		{"", "empty", String, "", 5},
		{"", "escaped", String, "a\tb\"c\\dé😀#", 6},
		{"", "ctx", Integer, "8192", 7},
		{"", "hex", Integer, "255", 8},
		{"", "minus", Integer, "-3", 9},
		{"", "plus", Integer, "4", 10},
		{"", "temp", Float, "0.3", 11},
		{"", "large", Float, "1e3", 12},
		{"", "small", Float, "-10.5E-2", 13},
		{"", "on", Boolean, "true", 14},
		{"serve", "off", Boolean, "false", 16},
		{"serve", "model", String, "a#b", 17},
	}, entries)
}

// TestWrongLines checks that every error names its line and what to do.
func TestWrongLines(t *testing.T) {
	for text, want := range map[string]string{
		"\n\nthreads":              "line 3: threads needs a value behind =, as in: threads = 4",
		"threads =":                "line 1: threads has no value: write one behind =, or remove the line",
		"threads = # 4":            "line 1: threads has no value",
		"= 4":                      "line 1: a name must consist of letters, digits, - and _",
		"ümlaut = 4":               "line 1: a name must consist of letters",
		`"threads" = 4`:            "line 1: keys in quotes are not supported",
		"chat.temp = 1":            "line 1: names with dots are not supported: write [chat]",
		"[chat . temp]":            "names with dots are not supported",
		"[chat":                    "line 1: the name of a table ends with ], as in [chat]",
		"[]":                       "a name must consist of",
		"[[chat]]":                 "begins an array, which is not supported",
		"[a]\n[b]\n[a]":            "line 3: [a] already begins in line 1: join the two",
		"a = 1\na = 2":             "line 2: a is already set in line 1: remove one of the two",
		"model = qwen":             `line 1: model: qwen is no value: text stands in quotes, as in model = "qwen"`,
		"model = my model":         `my is no value: text stands in quotes, as in model = "my model"`,
		`model = "qwen`:            `line 1: model: the text needs a second " at its end`,
		`model = "qwen\`:           `model: the text needs a second "`,
		`model = 'qwen`:            "model: the text needs a second '",
		`model = "C:\models"`:      `model: a backslash begins an escape, and this one is none: write \\ for one backslash`,
		`model = "\ud800"`:         "this one is none",
		`model = "\u12"`:           "this one is none",
		`model = "\uzzzz"`:         "this one is none",
		`model = """a"""`:          "text of several lines is not supported",
		"model = '''a'''":          "text of several lines is not supported",
		"model = ['a']":            "lists and tables are not supported",
		"model = {a = 1}":          "lists and tables are not supported",
		`model = "a" "b"`:          `unexpected "\"b\"" behind the value`,
		"a = 1, b = 2":             `unexpected ", b = 2" behind the value`,
		"a = 1979-05-27":           "1979-05-27 is no value",
		"a = 07":                   "07 is no value",
		"a = +-1":                  "+-1 is no value",
		"a = 1__0":                 "1__0 is no value",
		"a = 1_e5":                 "1_e5 is no value",
		"a = _1":                   "_1 is no value",
		"a = 1.":                   "1. is no value",
		"a = .5":                   ".5 is no value",
		"a = 1e":                   "1e is no value",
		"a = inf":                  "inf is no value",
		"a = 0x":                   "0x is no value",
		"a = 0x1p4":                "0x1p4 is no value",
		"a = 1e999":                "1e999 is no value",
		"a = 99999999999999999999": "is no value",
		"a = True":                 "True is no value",
		"a = 1 # \x01":             `line 1: the control character '\x01' is not allowed`,
		"a = 1\rb = 2":             `the control character '\r' is not allowed`,
		"a = 1\n# \xff":            "line 2: the text must be UTF-8",
	} {
		_, err := Parse(text)
		var at *Error
		require.ErrorAs(t, err, &at, text)
		require.ErrorContains(t, err, want, text)
	}
}

// FuzzParse parses any text. What is accepted is accepted again as its entries are written, with the same values.
func FuzzParse(f *testing.F) {
	f.Add("model = \"qwen\" # a name\n[serve]\nram = '4GiB'\r\nctx = 8_192\ntemp = -0.5e3\non = true\n")
	f.Add("a = \"\\u00e9\\n\"\n[[b]]\nc.d = [1]\n")
	f.Add("\ufeffa=0b1\nb=0o7\nc=+1.5")
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := Parse(text)
		lines := strings.Count(text, "\n") + 1
		var at *Error
		if errors.As(err, &at) {
			require.True(t, at.Line >= 1 && at.Line <= lines, "line %d of %d", at.Line, lines)
			return
		}
		require.NoError(t, err)
		var again strings.Builder
		table := ""
		for i := range entries {
			e := &entries[i]
			require.True(t, e.Line >= 1 && e.Line <= lines, "line %d of %d", e.Line, lines)
			if e.Table != table {
				table = e.Table
				fmt.Fprintf(&again, "[%s]\n", table)
			}
			value := e.Text
			if e.Kind == String {
				value = quoted(e.Text)
			}
			fmt.Fprintf(&again, "%s = %s\n", e.Key, value)
			e.Line = strings.Count(again.String(), "\n")
		}
		same, err := Parse(again.String())
		require.NoError(t, err, again.String())
		require.Equal(t, entries, same)
	})
}

// quoted writes a text in double quotes, with an escape for every character that might need one.
func quoted(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < ' ' || r == '"' || r == '\\' || r >= 0x7f {
			fmt.Fprintf(&b, `\U%08X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}
