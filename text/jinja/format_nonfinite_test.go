package jinja

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFormatNonFinite formats infinities and NaN with every kind of directive. As in
// Python the literal 1e999 is infinity.
func TestFormatNonFinite(t *testing.T) {
	for source, want := range map[string]string{
		`{{ '{:.2}'.format(1e999) }}`:             "inf",
		`{{ '{:,.2}'.format(-1e999) }}`:           "-inf",
		`{{ '{:.2}'.format(1e999 - 1e999) }}`:     "nan",
		`{{ '{:g}|{:f}'.format(1e999, -1e999) }}`: "inf|-inf",
		`{{ '{:6.1}|'.format(1e999) }}`:           "   inf|",
	} {
		tmpl, err := Parse(source)
		require.NoError(t, err, source)
		got, err := tmpl.Render(Input{})
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
}
