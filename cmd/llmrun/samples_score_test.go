package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVotesInJSON finds the field that an answer votes with: behind other braces, in nested objects, and with numbers that are written
// differently or have more digits than a float.
func TestVotesInJSON(t *testing.T) {
	find, err := parseVote("json:a.b")
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"a": {"b": "x  y"}}`:                       "x y",
		`In the set {1, 2} it is {"a": {"b": 4.0}}.`: "4",
		`{"a": {"b": 4}} {"a": {"b": 5}}`:            "4",
		`{"a": {"b": 40e-1}}`:                        "4",
		`{"a": {"b": 12345678901234567890}}`:         "12345678901234567890",
		`{"a": {"b": [1, null, true]}}`:              "[1,null,true]",
		`{"a": {"b": 0.1}}`:                          "0.1",
	} {
		got, ok := find(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "{", `{"a": 4}`, `{"a": {"c": 4}}`, `{"a": {"b": 4}`, strings.Repeat(`{"a":`, 1<<12)} {
		_, ok := find(text)
		require.False(t, ok)
	}
}
