package token_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/token"
)

// TestLoadAllocationIsBounded builds tokenizers from files with the smallest possible
// entries. The total allocation, garbage included, must be at most sixteen times the
// size of the file.
func TestLoadAllocationIsBounded(t *testing.T) {
	const n = 20000
	list := func(entry func(i int) string) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = entry(i)
		}
		return strings.Join(entries, ",")
	}
	short := func(i int) string { return fmt.Sprintf("%x", i) }
	vocab := list(func(i int) string { return fmt.Sprintf(`"%s":%d`, short(i), i) })
	for name, text := range map[string]string{
		"vocabulary": bpeJSON(vocab, "", ""),
		"merges":     pairsJSON(),
		"unigram":    `{"model":{"type":"Unigram","vocab":[` + list(func(i int) string { return `["` + short(i) + `",0]` }) + `]}}`,
		"long pieces": `{"model":{"type":"Unigram","vocab":[` + list(func(i int) string {
			return fmt.Sprintf(`["%016x",0]`, uint64(i)*0x9E3779B97F4A7C15)
		}) + `]}}`,
		"added tokens": bpeJSON("", "", `,"added_tokens":[`+list(func(i int) string { return fmt.Sprintf(`{"id":%d,"content":"%x"}`, i, i) })+`]`),
		"a long token": bpeJSON("", "", `,"added_tokens":[{"id":0,"content":"`+strings.Repeat("a", 1<<20)+`"}]`),
		"spaces":       strings.Repeat(" ", 1<<20) + bpeJSON("", "", ""),
		"escapes":      bpeJSON("", "", `,"added_tokens":[{"id":0,"content":"`+strings.Repeat(`\n`, 1<<18)+`"}]`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := token.FromJSON([]byte(text), token.Config{})
		runtime.ReadMemStats(&after)
		require.NoError(t, err, name)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes, %.1f times the file", name, allocated, float64(allocated)/float64(len(text)))
		assert.LessOrEqual(t, allocated, uint64(16*len(text)+1<<20), name)
	}
}

// pairsJSON returns a tokenizer.json whose vocabulary has all pairs of 62 letters.
func pairsJSON() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var vocab, merges []string
	for i, a := range letters {
		vocab = append(vocab, fmt.Sprintf(`"%c":%d`, a, i))
	}
	for _, a := range letters {
		for _, b := range letters {
			merges = append(merges, fmt.Sprintf(`"%c %c"`, a, b))
			vocab = append(vocab, fmt.Sprintf(`"%c%c":%d`, a, b, len(vocab)))
		}
	}
	return bpeJSON(strings.Join(vocab, ","), strings.Join(merges, ","), "")
}
