package index

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// termsOf returns the terms of a text.
func termsOf(text string, query bool) (terms []uint64) {
	s := splitter{query: query}
	s.terms([]byte(text), func(term uint64) { terms = append(terms, term) })
	return terms
}

// TestTermsFold expects the same terms for different spellings.
func TestTermsFold(t *testing.T) {
	for text, same := range map[string]string{
		"Ruby's":          "ruby",
		"Decisions":       "decision",
		"ÉLÈVES":          "eleve",
		"L’avion d'été":   "avion ete",
		"ÉTÉ":             "e\u0301te\u0301",
		"Straße":          "STRASSE",
		"Øresund Łódź":    "oresund lodz",
		"ΣΊΣΥΦΟΣ":         "σισυφος",
		"ёлка":            "ЕЛКА",
		"שָׁלוֹם":         "שלום",
		"مُحَمَّد":        "محمد",
		"ﬁne":             "fine",
		"snake_case-word": "snake case word",
		"19:15":           "19 15",
		"カﾞ":              "ガ",
		"😀 ok":            "OK",
	} {
		require.Equal(t, termsOf(same, false), termsOf(text, false), "%q and %q", text, same)
		require.NotEmpty(t, termsOf(text, false))
	}
	require.NotEqual(t, termsOf("कि", false), termsOf("कु", false), "vowels of Devanagari stay")
	require.NotEqual(t, termsOf("résumé", false), termsOf("resumed", false))
	for _, stays := range []string{"class", "analysis", "virus", "gas"} {
		require.NotEqual(t, termsOf(stays[:len(stays)-1], false), termsOf(stays, false))
	}
	require.Empty(t, termsOf("– … \xff\xfe", false))
	require.Empty(t, termsOf(strings.Repeat("QUJD", 100), false))
}

// TestTermsOfScriptsWithoutSpaces finds parts of runs of characters.
func TestTermsOfScriptsWithoutSpaces(t *testing.T) {
	for text, query := range map[string]string{
		"我們在圖書館開會":          "圖書館",
		"黒い猫がいる":            "猫",
		"ประชุมที่ห้องสมุด": "ห้องสมุด",
		"회의는 도서관에서":         "도서관",
		"ミーティング":            "ミーティング",
	} {
		have := map[uint64]bool{}
		for _, term := range termsOf(text, false) {
			have[term] = true
		}
		asked := termsOf(query, true)
		require.NotEmpty(t, asked, query)
		for _, term := range asked {
			require.True(t, have[term], "%q in %q", query, text)
		}
	}
	require.Len(t, termsOf("圖書館", true), 2)
	require.Len(t, termsOf("abc圖書x", true), 3)
}

// TestTermsOfParts expects that a text has the terms of its lines.
func TestTermsOfParts(t *testing.T) {
	lines := []string{"The café of Zoë", "東京タワー 12", "don't"}
	var parts []uint64
	for _, line := range lines {
		parts = append(parts, termsOf(line, false)...)
	}
	require.Equal(t, parts, termsOf(strings.Join(lines, "\n"), false))
	n, err := countWords(strings.Join(lines, "\n"))
	require.NoError(t, err)
	require.Equal(t, 4+5+1+2, n)
}

// FuzzTerms splits any text.
func FuzzTerms(f *testing.F) {
	f.Add("Ünïcode's 漢字 \xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, term := range termsOf(text, false) {
			require.Less(t, term, uint64(1)<<termBits)
		}
	})
}
