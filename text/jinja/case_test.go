package jinja

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCaseMapping compares with what Python 3.11 and Jinja 3.1 give.
func TestCaseMapping(t *testing.T) {
	for _, c := range []struct{ text, upper, lower, title, capital, swapped, folded, words string }{
		{"stra\u00dfe \ufb01ne \u01c6", "STRASSE FINE \u01c4", "stra\u00dfe \ufb01ne \u01c6", "Stra\u00dfe Fine \u01c5", "Stra\u00dfe \ufb01ne \u01c6", "STRASSE FINE \u01c4", "strasse fine \u01c6", "Stra\u00dfe FIne \u01c4"},
		{"\u0391\u03a3 \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3. \u03a3 \u03a3\u0391 \u03b1\u03a3\u2019 \u03a3'\u03a3", "\u0391\u03a3 \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3. \u03a3 \u03a3\u0391 \u0391\u03a3\u2019 \u03a3'\u03a3", "\u03b1\u03c2 \u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2. \u03c3 \u03c3\u03b1 \u03b1\u03c2\u2019 \u03c3'\u03c2", "\u0391\u03c2 \u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2. \u03a3 \u03a3\u03b1 \u0391\u03c2\u2019 \u03a3'\u03a3", "\u0391\u03c2 \u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2. \u03c3 \u03c3\u03b1 \u03b1\u03c2\u2019 \u03c3'\u03c2", "\u03b1\u03c2 \u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2. \u03c3 \u03c3\u03b1 \u0391\u03c2\u2019 \u03c3'\u03c2", "\u03b1\u03c3 \u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c3. \u03c3 \u03c3\u03b1 \u03b1\u03c3\u2019 \u03c3'\u03c3", "\u0391\u03c3 \u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2. \u03a3 \u03a3\u03b1 \u0391\u03c3\u2019 \u03a3'\u03c3"},
		{"\u0130stanbul \u0131I", "\u0130STANBUL II", "i\u0307stanbul \u0131i", "\u0130stanbul Ii", "\u0130stanbul \u0131i", "i\u0307STANBUL Ii", "i\u0307stanbul \u0131i", "\u0130stanbul Ii"},
		{"\u0149a \u01f0b \u0390 \u1fb3\u1fb7", "\u02bcNA J\u030cB \u0399\u0308\u0301 \u0391\u0399\u0391\u0342\u0399", "\u0149a \u01f0b \u0390 \u1fb3\u1fb7", "\u02bcNa J\u030cb \u0399\u0308\u0301 \u1fbc\u1fb7", "\u02bcNa \u01f0b \u0390 \u1fb3\u1fb7", "\u02bcNA J\u030cB \u0399\u0308\u0301 \u0391\u0399\u0391\u0342\u0399", "\u02bcna j\u030cb \u03b9\u0308\u0301 \u03b1\u03b9\u03b1\u0342\u03b9", "\u02bcNa J\u030cb \u0399\u0308\u0301 \u0391\u0399\u1fb7"},
		{"they're bill's (a-b) {c}", "THEY'RE BILL'S (A-B) {C}", "they're bill's (a-b) {c}", "They'Re Bill'S (A-B) {C}", "They're bill's (a-b) {c}", "THEY'RE BILL'S (A-B) {C}", "they're bill's (a-b) {c}", "They're Bill's (A-B) {C}"},
		{"\u4e2da\u6587Bc 1x \u24d0bc", "\u4e2dA\u6587BC 1X \u24b6BC", "\u4e2da\u6587bc 1x \u24d0bc", "\u4e2dA\u6587Bc 1X \u24b6bc", "\u4e2da\u6587bc 1x \u24d0bc", "\u4e2dA\u6587bC 1X \u24b6BC", "\u4e2da\u6587bc 1x \u24d0bc", "\u4e2da\u6587bc 1x \u24b6bc"},
		{"\ufb03-\ufb06 \u00df", "FFI-ST SS", "\ufb03-\ufb06 \u00df", "Ffi-St Ss", "Ffi-\ufb06 \u00df", "FFI-ST SS", "ffi-st ss", "FFI-ST SS"},
		{"\u00df", "SS", "\u00df", "Ss", "Ss", "SS", "ss", "SS"},
		{"\ufb01", "FI", "\ufb01", "Fi", "Fi", "FI", "fi", "FI"},
		{"\u13a0\uab70 \u017f \u03c2", "\u13a0\u13a0 S \u03a3", "\uab70\uab70 \u017f \u03c2", "\u13a0\uab70 S \u03a3", "\u13a0\uab70 \u017f \u03c2", "\uab70\u13a0 S \u03a3", "\u13a0\u13a0 s \u03c3", "\u13a0\uab70 S \u03a3"},
		{"\u00aa \u02e3a \u01c5\u01c4", "\u00aa \u02e3A \u01c4\u01c4", "\u00aa \u02e3a \u01c6\u01c6", "\u00aa \u02e3a \u01c5\u01c6", "\u00aa \u02e3a \u01c6\u01c6", "\u00aa \u02e3A \u01c5\u01c6", "\u00aa \u02e3a \u01c6\u01c6", "\u00aa \u02e3a \u01c4\u01c6"},
		{"", "", "", "", "", "", "", ""},
		{"a\u03a3\u00adb a\u03a3\u00ad", "A\u03a3\u00adB A\u03a3\u00ad", "a\u03c3\u00adb a\u03c2\u00ad", "A\u03c3\u00adB A\u03c2\u00ad", "A\u03c3\u00adb a\u03c2\u00ad", "A\u03c3\u00adB A\u03c2\u00ad", "a\u03c3\u00adb a\u03c3\u00ad", "A\u03c3\u00adb A\u03c3\u00ad"},
	} {
		require.Equal(t, c.upper, upper(c.text), "upper of %q", c.text)
		require.Equal(t, c.lower, lower(c.text), "lower of %q", c.text)
		require.Equal(t, c.title, titleLetters(c.text), "title of %q", c.text)
		require.Equal(t, c.capital, capitalize(c.text), "capitalize of %q", c.text)
		require.Equal(t, c.swapped, swapCase(c.text), "swapcase of %q", c.text)
		require.Equal(t, c.folded, caseFold(c.text), "casefold of %q", c.text)
		require.Equal(t, c.words, titleWords(c.text), "the filter title of %q", c.text)
		for _, out := range []string{c.upper, c.lower, c.title, c.folded} {
			require.LessOrEqual(t, len(out), caseGrowth*len(c.text))
		}
	}
}
