package testutil

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// MacroBytes returns what the definitions of a macro in an assembler header encode, in the order of
// the file, as bytes in hexadecimal: "c4 c2 25 50 e2". The macro has BYTE directives alone; args are the
// values of its parameters.
func MacroBytes(tb testing.TB, header, macro string, args ...string) []string {
	tb.Helper()
	definition := regexp.MustCompile(`#define ` + macro + `\(([\w, ]+)\) \\\n((?:\tBYTE .*\n)+)`)
	var all []string
	for _, found := range definition.FindAllStringSubmatch(header, -1) {
		parameters := strings.Split(found[1], ", ")
		if len(args) != len(parameters) {
			tb.Fatalf("%s has %d parameters, not %d", macro, len(parameters), len(args))
		}
		var pairs []string
		for i, p := range parameters {
			pairs = append(pairs, p, args[i])
		}
		all = append(all, encoded(tb, found[2], strings.NewReplacer(pairs...)))
	}
	return all
}

// encoded evaluates the bytes of a definition for some arguments.
func encoded(tb testing.TB, body string, args *strings.Replacer) string {
	tb.Helper()
	var all []string
	for _, expression := range regexp.MustCompile(`\$(\S+)`).FindAllStringSubmatch(body, -1) {
		text := args.Replace(expression[1])
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
		if err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
		n, err := strconv.ParseUint(constant.ToInt(v.Value).ExactString(), 10, 8)
		if err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
		all = append(all, fmt.Sprintf("%02x", n))
	}
	return strings.Join(all, " ")
}
