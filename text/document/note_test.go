package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseNote(t *testing.T) {
	text := `---
title: "Plan: the garden"
aliases: [Beds, 'Old, plan']
tags:
  - home/garden
  - "#spring"
cssclass: wide
---
See [[Soil#Clay|the clay]] and ![[bed.png]], also [[#Costs]] and [a map](maps/town%20hall.md#North "big").
Not [a page](https://example.org), not ` + "`[[code]] #code`" + `, not [open or C# or #12.

# Costs
## Seeds
#spring #été/plants
` + "```" + `
# no heading
[[nothing]] #nothing
` + "```" + `
Water
-----
More.
`
	n := ParseNote([]byte(text))
	require.Equal(t, "Plan: the garden", n.Title)
	require.Equal(t, []string{"Beds", "Old, plan"}, n.Aliases)
	require.Equal(t, []string{"home/garden", "spring", "été/plants"}, n.Tags)
	require.Equal(t, []Link{
		{"Soil", "Clay", "the clay", false}, {"bed.png", "", "", true}, {"", "Costs", "", false}, {"maps/town hall.md", "North", "a map", false},
	}, n.Links)
	require.True(t, strings.HasPrefix(text[n.Body:], "See"))
	require.Len(t, n.Headings, 3)
	for i, want := range []Heading{{1, "Costs", 0}, {2, "Seeds", 0}, {2, "Water", 0}} {
		require.Equal(t, want.Level, n.Headings[i].Level)
		require.Equal(t, want.Title, n.Headings[i].Title)
	}
	require.Empty(t, n.Path(n.Body))
	require.Equal(t, []string{"Costs", "Seeds"}, n.Path(strings.Index(text, "#spring #")))
	require.Equal(t, []string{"Costs", "Water"}, n.Path(strings.Index(text, "More")))
}

func TestParseNoteWithoutFrontMatter(t *testing.T) {
	for text, title := range map[string]string{
		"":                                   "",
		"# One\n# Two\n":                     "One",
		"Subject: The lease\nText":           "The lease",
		"Text\nSubject: The lease\n":         "",
		"---\nnot closed\n# Title\n":         "Title",
		"\ufeff---\ntitle: A\n---\n# B\n":    "A",
		"---\r\ntags: x y\r\n---\r\n# B\r\n": "B",
	} {
		require.Equal(t, title, func() string { n := ParseNote([]byte(text)); return n.Title }(), "%q", text)
	}
	n := ParseNote([]byte("---\r\ntags: x y\r\n---\r\n# B\r\n"))
	require.Equal(t, []string{"x", "y"}, n.Tags)
	n = ParseNote([]byte("---\n" + strings.Repeat("a: b\n", maxFrontMatter) + "---\n"))
	require.Zero(t, n.Body)
}

// FuzzParseNote reads any text.
func FuzzParseNote(f *testing.F) {
	f.Add("---\ntags: [a, \"b]\n---\n# A\n![[x#y|z]] [a](b) #t\nA\n=\n")
	f.Fuzz(func(t *testing.T, text string) {
		n := ParseNote([]byte(text))
		require.LessOrEqual(t, n.Body, len(text))
		for _, h := range n.Headings {
			require.Less(t, h.Start, len(text))
			require.NotEmpty(t, n.Path(h.Start))
		}
	})
}
