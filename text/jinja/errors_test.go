package jinja

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestErrors checks the kind, line and construct of errors.
func TestErrors(t *testing.T) {
	tests := []struct {
		name, source string
		kind         error
		line         int
		construct    string
		text         string
	}{
		{"include", "a\n{% include 'x' %}", ErrUnsupported, 2, "{% include %}", "one file"},
		{"import", "{% import 'x' as y %}", ErrUnsupported, 1, "{% import %}", "one file"},
		{"from", "{% from 'x' import y %}", ErrUnsupported, 1, "{% from %}", "one file"},
		{"extends", "{% extends 'x' %}", ErrUnsupported, 1, "{% extends %}", "one file"},
		{"do", "{% do x.append(1) %}", ErrUnsupported, 1, "{% do %}", "namespace"},
		{"unknown tag", "\n\n{% frob %}", ErrUnsupported, 3, "{% frob %}", "unknown tag"},
		{"unknown filter", "{{ 1|frob }}", ErrUnsupported, 1, "filter 'frob'", "no filter"},
		{"unknown test", "{{ 1 is frob }}", ErrUnsupported, 1, "test 'frob'", "no test"},
		{"unknown filter in a branch that runs", "{% if 1 %}\n{{ 1|frob }}{% endif %}", ErrUnsupported, 2, "filter 'frob'", "no filter"},
		{"named character", `{{ "\N{DASH}" }}`, ErrUnsupported, 1, `\N{…}`, "uXXXX"},
		{"open if", "{% if 1 %}", ErrSyntax, 1, "", "endif"},
		{"stray end", "{% endfor %}", ErrSyntax, 1, "", "no matching opening tag"},
		{"open tag", "x\n{{ 1", ErrSyntax, 2, "", "ends inside a tag"},
		{"open comment", "{# x", ErrSyntax, 1, "", "lacks its closing #}"},
		{"bad bracket", "{{ (1] }}", ErrSyntax, 1, "", "expected ')'"},
		{"break outside a loop", "{% break %}", ErrSyntax, 1, "", "outside a loop"},
		{"bad escape", `{{ "\x1" }}`, ErrSyntax, 1, "", "escape"},
		{"not UTF-8", "\xff", ErrSyntax, 0, "", "UTF-8"},
		{"undefined", "a\n{{ a.b.c }}", ErrRuntime, 2, "", "'a' is undefined"},
		{"types", "{{ 1 +\n 'a' }}", ErrRuntime, 1, "", "unsupported operand type(s) for +: 'int' and 'str'"},
		{"private", "{{ ''.__class__.__mro__ }}", ErrRuntime, 1, "", "unsafe"},
		{"mutation", "{% set x = [] %}{{ x.append(1) }}", ErrRuntime, 1, "", "unsafe"},
		{"dict mutation", "{% set x = {} %}{{ x.update({1: 2}) }}", ErrRuntime, 1, "", "unsafe"},
		{"overflow", "{{ 9223372036854775807 + 1 }}", ErrLimit, 1, "", "64 bits"},
		{"huge literal", "{{ 99999999999999999999 }}", ErrLimit, 1, "", "64 bits"},
		{"raised", "\n{{ raise_exception('No: ' ~ 1) }}", ErrRaised, 2, "raise_exception", "No: 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := renderSource(tt.source, Input{})
			var failure *Error
			require.ErrorAs(t, err, &failure)
			require.ErrorIs(t, err, tt.kind)
			require.Equal(t, tt.line, failure.Line)
			require.Equal(t, tt.construct, failure.Construct)
			require.ErrorContains(t, err, tt.text)
		})
	}
}

// TestUnknownFilterInUnusedBranch checks that a branch that never runs may use unknown
// filters and tests, as in Jinja.
func TestUnknownFilterInUnusedBranch(t *testing.T) {
	for _, source := range []string{
		"{% if 0 %}{{ 1|frob }}{{ 1 is frob }}{% endif %}ok",
		"{{ 1|frob if 0 else 'ok' }}",
		"{{ 'ok' if 1 else 1|frob }}",
	} {
		got, err := renderSource(source, Input{})
		require.NoError(t, err, source)
		require.Equal(t, "ok", got)
	}
}

// TestRaisedMessageHasNoPrefix checks that the message of raise_exception has no
// prefix.
func TestRaisedMessageHasNoPrefix(t *testing.T) {
	_, err := renderSource("{{ raise_exception('System role not supported') }}", Input{})
	require.EqualError(t, err, "System role not supported")
}
