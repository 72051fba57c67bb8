package token

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// referenceMerge implements the definition of byte-pair encoding: it repeatedly joins
// the leftmost pair with the lowest rank.
func referenceMerge(t *mergeTable, ids []int32) []int32 {
	ids = slices.Clone(ids)
	for {
		best, at := int32(noMerge), -1
		for i := 1; i < len(ids); i++ {
			if m := t.get(ids[i-1], ids[i]); m.rank < best {
				best, at = m.rank, i-1
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = t.get(ids[at], ids[at+1]).id
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// TestMergesEqualReference compares both merge algorithms with the reference on random
// tables. Some ranks are equal, and some results have a lower rank than the merges that
// produce their parts.
func TestMergesEqualReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	work := &mergeWork{}
	for range 400 {
		symbols, ranks := 1+rng.IntN(4), 1+rng.IntN(30)
		table := newMergeTable(0)
		for id := int32(symbols); id < 40; id++ {
			table.put(rng.Int32N(id), rng.Int32N(id), merge{rank: rng.Int32N(int32(ranks)), id: id}, false)
		}
		ids := make([]int32, 1+rng.IntN(120))
		for i := range ids {
			ids[i] = rng.Int32N(int32(symbols))
		}
		want := referenceMerge(table, ids)
		assert.Equal(t, want, longApply(work, table, slices.Clone(ids)))
		assert.Equal(t, want, table.apply(slices.Clone(ids), work))
		short := ids[:min(len(ids), maxShortWord)]
		assert.Equal(t, referenceMerge(table, short), table.applyShort(slices.Clone(short), work.short[:0]))
	}
}

func TestMergeTable(t *testing.T) {
	table := newMergeTable(0)
	for i := range int32(1000) {
		table.put(i, i*7, merge{rank: i, id: i + 1}, false)
		table.put(i, i*7, merge{rank: -1, id: -1}, false)
	}
	for i := range int32(1000) {
		assert.Equal(t, merge{rank: i, id: i + 1}, table.get(i, i*7))
	}
	assert.EqualValues(t, noMerge, table.get(3, 3).rank)
	table.put(3, 21, merge{rank: 9, id: 9}, true)
	assert.Equal(t, merge{rank: 9, id: 9}, table.get(3, 21))
}

// TestLowRankResultsTakeLinearTime merges a long word in which the result of every
// merge joins again at the same rank, so buckets receive positions after they are
// opened.
func TestLowRankResultsTakeLinearTime(t *testing.T) {
	table := newMergeTable(0)
	for id := int32(1); id < 18; id++ {
		table.put(id-1, id-1, merge{rank: 0, id: id}, false)
	}
	ids := make([]int32, 1<<17)
	got := longApply(new(mergeWork), table, ids)
	assert.Equal(t, []int32{17}, got)
}

func TestVocabularyLookup(t *testing.T) {
	texts := []string{"a", "", "b", strings.Repeat("long", 10), "日本"}
	kinds := []kind{kindNormal, kindUnassigned, kindControl, kindNormal, kindByte}
	v, err := newVocabulary("vocab", len(texts), func(id int) string { return texts[id] }, kinds)
	require.NoError(t, err)
	for id, text := range texts {
		if kinds[id] != kindUnassigned {
			assert.EqualValues(t, id, v.lookup(text))
			assert.Equal(t, text, v.piece(int32(id)))
		}
	}
	assert.EqualValues(t, -1, v.lookup(""), "an unassigned id has no piece")
	assert.EqualValues(t, -1, v.lookup("c"))
	assert.EqualValues(t, -1, v.lookup(strings.Repeat("x", 1000)))
	assert.EqualValues(t, -1, v.lookupPlain("b"), "plain text does not match control tokens")
	assert.False(t, v.has(1))
	assert.False(t, v.has(-1))
	assert.False(t, v.has(5))
}

func TestTrieFindsAllPrefixes(t *testing.T) {
	texts := []string{"b", "abc", "", "a", "abd", "ab", "abc"}
	tr := newTrie(len(texts), func(i int) string { return texts[i] })
	var found []string
	node := int32(0)
	for _, b := range []byte("abcd") {
		if node = tr.child(node, b); node < 0 {
			break
		}
		if v := tr.value[node]; v >= 0 {
			found = append(found, texts[v])
		}
	}
	assert.Equal(t, []string{"a", "ab", "abc"}, found)
	assert.EqualValues(t, -1, tr.child(0, 'c'))
	assert.Len(t, tr.label, 6)
	assert.Len(t, tr.value, 6)
}

func longApply(work *mergeWork, t *mergeTable, ids []int32) []int32 {
	ids, _ = work.long.apply(t, ids)
	return ids
}
