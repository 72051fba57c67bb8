package token

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// inParts encodes a word in parts of size symbols, as encodeLong does after a seam that fails. It also
// returns the number of such seams.
func (m *bpeModel) inParts(word string, size int) (ids []int32, failed int) {
	out, work := &idBlocks{m: newMeter(len(word), maxTextGrowth, EncodeOptions{})}, &scratch{}
	for ; !m.encodeParts(out, word, size, work); size *= partGrowth {
		out.cut(0)
		failed++
	}
	return out.join(), failed
}

// TestPartsEqualTheWholeForRandomMerges encodes random words in short parts, with random tables: some
// ranks are equal, some results have a lower rank than the merges that produce their parts, and many
// seams fail.
func TestPartsEqualTheWholeForRandomMerges(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	failures, seams := 0, 0
	for range 3000 {
		symbols, ranks := 1+rng.IntN(4), 1+rng.IntN(30)
		m := &bpeModel{vocab: &vocabulary{}, byteLevel: true, merges: newMergeTable(0)}
		for b := range m.bytes {
			m.bytes[b] = int32(b % symbols)
		}
		for id := int32(symbols); id < 40; id++ {
			m.merges.put(rng.Int32N(id), rng.Int32N(id), merge{rank: rng.Int32N(int32(ranks)), id: id}, false)
		}
		word := make([]byte, 1+rng.IntN(400))
		run := byte(0)
		for i := range word {
			if rng.IntN(8) > 0 { // runs of one symbol have the longest dependences
				run = byte(rng.IntN(symbols))
			}
			word[i] = run
		}
		size := 8 + rng.IntN(40)
		want, whole := m.inParts(string(word), len(word))
		require.Zero(t, whole)
		base := make([]int32, len(word))
		for i, b := range word {
			base[i] = int32(b)
		}
		require.Equal(t, referenceMerge(m.merges, base), want)
		got, failed := m.inParts(string(word), size)
		require.Equal(t, want, got, "%d symbols in parts of %d", len(word), size)
		failures, seams = failures+failed, seams+len(word)/size
	}
	require.Greater(t, failures, 50, "no seam that fails is tested")
	require.Less(t, failures, seams/4)
}

// bpeOf returns the BPE models of all vocabularies of the tests, with the normalizers before them.
func bpeOf(t *testing.T) map[string]*Tokenizer {
	all := map[string]*Tokenizer{}
	for _, name := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		data := testutil.Must(os.ReadFile(filepath.Join("testdata", name, "tokenizer.json")))
		all[name] = testutil.Must(FromJSON(data, Config{}))
	}
	for _, name := range []string{"llama-spm", "phi-3", "gpt-2", "deepseek-llm"} {
		file := testutil.Must(gguf.Open(vfs.OS(), testutil.Shared(t, "vocab", name+".gguf")))
		all[name] = testutil.Must(FromGGUF(file.Meta()))
		require.NoError(t, file.Close())
	}
	return all
}

// proseOf returns texts of several kinds, each with about n bytes.
func proseOf(t *testing.T, n int) map[string]string {
	prose := string(testutil.Must(os.ReadFile(testutil.Shared(t, "demo", "long_text.txt"))))
	prose = strings.Repeat(prose, n/len(prose)+1)[:n]
	rng := rand.New(rand.NewPCG(5, 6))
	noise := make([]byte, n)
	for i := range noise {
		noise[i] = byte(rng.IntN(256))
	}
	return map[string]string{
		"prose": prose, "no white space": strings.Join(strings.Fields(prose), ""), "one letter": strings.Repeat("a", n),
		"spaces": strings.Repeat(" ", n), "line breaks": strings.Repeat("\n", n), "bytes": string(noise),
		"characters": strings.Repeat("日本語の文章は空白を使わない。é𝔘", n/40), "digits": strings.Repeat("0123456789", n/10),
		"symbol": strings.Repeat("▁", n/3), "unknown": strings.Repeat("\U0001F9D9\u0378", n/6),
	}
}

// TestPartsEqualTheWhole encodes texts as one word, in short parts and unsplit, with the vocabularies
// of real models.
func TestPartsEqualTheWhole(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	for name, tok := range bpeOf(t) {
		m := tok.model.(*bpeModel)
		for kind, text := range proseOf(t, n) {
			if tok.norm != nil {
				text = tok.norm.normalize(newMeter(len(text), maxTextGrowth, EncodeOptions{}), text)
			}
			whole, _ := m.inParts(text, math.MaxInt32)
			for _, size := range []int{64, 500, partSymbols} {
				got, failed := m.inParts(text, size)
				require.True(t, slices.Equal(whole, got), "%s: %s in parts of %d", name, kind, size)
				if size == partSymbols {
					require.Zero(t, failed, "%s: %s", name, kind)
				}
			}
			out := &idBlocks{m: newMeter(len(text), maxTextGrowth, EncodeOptions{})}
			plain := *m
			plain.ignoreMerges = false
			plain.encode(out, text, &scratch{})
			require.True(t, slices.Equal(whole, out.join()), "%s: %s", name, kind)
		}
	}
}

// referencePaths is the Viterbi algorithm with all of its state.
func referencePaths(m *unigramModel, word string) (ids []int32) {
	score, from, id := make([]float64, len(word)+1), make([]int, len(word)+1), make([]int32, len(word)+1)
	for i := range from {
		from[i] = -1
	}
	improve := func(at, to int, piece int32, s float64) {
		if s += score[at]; from[to] < 0 || s > score[to] {
			score[to], from[to], id[to] = s, at, piece
		}
	}
	for at := 0; at < len(word); {
		_, width := utf8.DecodeRuneInString(word[at:])
		covered := false
		for end := at + 1; end <= min(len(word), at+m.longest); end++ {
			if piece := m.trie.find(word[at:end]); piece >= 0 {
				improve(at, end, piece, m.scores[piece])
				covered = covered || end == at+width
			}
		}
		if !covered {
			improve(at, at+width, m.unknown, m.unknownScore)
		}
		at += width
	}
	wasUnknown := false
	for at := len(word); at > 0; at = from[at] {
		unknown := id[at] == m.unknown
		switch {
		case unknown && m.byteFallback && m.bytes.cover(word[from[at]:at]):
			for i := at - 1; i >= from[at]; i-- {
				ids = append(ids, m.bytes[word[i]])
			}
		case id[at] >= 0 && !(unknown && wasUnknown):
			ids = append(ids, id[at])
		}
		wasUnknown = unknown
	}
	slices.Reverse(ids)
	return ids
}

// TestUnigramEqualsReference compares the paths with those of the whole state, for random pieces, of
// which many have equal scores, and with byte tokens for some unknown bytes.
func TestUnigramEqualsReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	letters := []string{"a", "b", "é", "日", "\xff", "▁"}
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	for range 2000 {
		pieces, kinds := []string{"<unk>", "<0xC3>", "<0xA9>", "<0xFF>"}, []kind{kindUnknown, kindByte, kindByte, kindByte}
		for len(pieces) < 30 {
			if piece := word(1 + rng.IntN(6)); !slices.Contains(pieces, piece) {
				pieces, kinds = append(pieces, piece), append(kinds, kindNormal)
			}
		}
		v := testutil.Must(newVocabulary("vocab", len(pieces), func(id int) string { return pieces[id] }, kinds))
		scores := make([]float64, len(pieces))
		for i := range scores {
			scores[i] = -float64(rng.IntN(4)) / 3
		}
		m := newUnigram(v, scores, int32(rng.IntN(2))-1, func(id int32) bool { return kinds[id] == kindNormal })
		m.byteFallback = rng.IntN(2) == 0
		for _, text := range []string{word(1 + rng.IntN(300)), strings.Repeat(word(1), 100)} {
			out := &idBlocks{m: newMeter(len(text), maxTextGrowth, EncodeOptions{})}
			m.encode(out, text, &scratch{})
			require.Equal(t, referencePaths(m, text), out.join(), "%q", text)
		}
	}
}

// TestIDBlocks checks the blocks against a slice.
func TestIDBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	reserved := int64(0)
	o := EncodeOptions{Reserve: func(bytes int64) error { reserved += bytes; return nil }}
	out := &idBlocks{m: newMeter(0, 1, o), last: []int32{1, 2, 3}}
	want := []int32{1, 2, 3}
	for len(want) < 10*idBlock {
		ids := make([]int32, rng.IntN(3*idBlock/2))
		for i := range ids {
			ids[i] = rng.Int32()
		}
		out.add(ids...)
		want = append(want, ids...)
		require.Equal(t, len(want), out.len())
		if rng.IntN(3) == 0 {
			n := len(want) - rng.IntN(min(len(want), 2*idBlock))
			out.cut(n)
			want = want[:n]
		}
		require.True(t, slices.Equal(want, out.join()))
	}
	require.GreaterOrEqual(t, reserved, int64(idCost*len(want)))
}
