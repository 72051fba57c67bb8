package document

import (
	"fmt"
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
	for i, want := range []Heading{{Level: 1, Title: "Costs"}, {Level: 2, Title: "Seeds"}, {Level: 2, Title: "Water"}} {
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

// TestHeadingsNest compares the headings above each offset with those of a stack.
func TestHeadingsNest(t *testing.T) {
	text := "# A\n### B\n## C\n###### D\n# E\n## F\n## G\ntext\n#### H\n### I\n"
	n := ParseNote([]byte(text))
	for at, want := range map[string]string{"A": "A", "B": "A B", "C": "A C", "D": "A C D", "E": "E", "F": "E F", "G": "E G", "text": "E G", "H": "E G H", "I": "E G I"} {
		require.Equal(t, want, strings.Join(n.Path(strings.Index(text, at)), " "), at)
	}
	n = ParseNote([]byte("text\n## A\n"))
	require.Empty(t, n.Path(4))
	require.Equal(t, []string{"A"}, n.Path(5))
}

// TestDataThatLooksLikeANote reads texts with brackets that do not close, and with headings, tags or aliases without end. Time that
// grows with the square of their length would be hours.
func TestDataThatLooksLikeANote(t *testing.T) {
	const size = 2 << 20
	for _, unit := range []string{"[", "[[", "[a](", "[ ", "`[", "#", "![[a|"} {
		n := ParseNote([]byte(strings.Repeat(unit, size/len(unit))))
		require.Empty(t, n.Headings)
	}
	var tags, headings strings.Builder
	for i := 0; tags.Len() < size; i++ {
		fmt.Fprintf(&tags, "#t%d ", i)
		fmt.Fprintf(&headings, "## h%d\n", i)
	}
	n := ParseNote([]byte(tags.String()))
	require.Len(t, n.Tags, maxTags)
	n = ParseNote([]byte(headings.String()))
	for at := 0; at < headings.Len(); at += 100 {
		require.Len(t, n.Path(at), 1)
	}
	n = ParseNote([]byte("---\naliases: [" + strings.Repeat("a,", maxFrontMatter/4) + "]\n---\n"))
	require.Len(t, n.Aliases, maxAliases)
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
