package token_test

import (
	"encoding/base64"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/text/token"
)

// growing lists files whose stages each stay below the growth that is refused at once, but
// make a long text several hundred times as long.
func growing() map[string]string {
	double := `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`
	doubleRegex := `{"type":"Replace","pattern":{"Regex":"a"},"content":"aa"}`
	charsmap := base64.StdEncoding.EncodeToString(charsmapOf('a', strings.Repeat("b", 250)))
	return map[string]string{
		"Replace":       `,"normalizer":` + sequence("normalizers", 10, double),
		"Replace twice": `,"normalizer":` + sequence("normalizers", 2, sequence("normalizers", 5, double)),
		"regex":         `,"normalizer":` + sequence("normalizers", 10, doubleRegex),
		"long Replace":  `,"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 1000) + `"}`,
		"Prepend":       `,"added_tokens":[{"id":3,"content":"c"}],"normalizer":{"type":"Prepend","prepend":"` + strings.Repeat("b", 1000) + `"}`,
		"Precompiled":   `,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + charsmap + `"}`,
		"ByteLevel":     `,"normalizer":` + sequence("normalizers", 6, double) + `,"pre_tokenizer":` + sequence("pretokenizers", 4, `{"type":"ByteLevel","use_regex":false}`),
	}
}

// allocatedBy returns the bytes that f allocates, garbage included.
func allocatedBy(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestEncodeStopsBeforeTextGrows encodes 64 KB with files that would make them dozens of
// megabytes. The error names the file and the stage, and the memory stays within the limit
// for text, with garbage.
func TestEncodeStopsBeforeTextGrows(t *testing.T) {
	text := strings.Repeat("ac", 1<<15)
	for name, extra := range growing() {
		t.Run(name, func(t *testing.T) {
			tok, err := token.FromJSON([]byte(bpeJSON(abVocab, "", extra)), token.Config{Path: "dir/tokenizer.json"})
			require.NoError(t, err)
			allocated := allocatedBy(func() { _, err = tok.Encode(text, token.EncodeOptions{}) })
			var refused *store.FormatError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, "dir/tokenizer.json", refused.Path)
			assert.Regexp(t, "^(normalizer|pre_tokenizer)", refused.Field)
			assert.Contains(t, refused.Reason, "makes more than 4259840 bytes of a text of 65536 bytes")
			most := int64(20 << 20)
			if name == "Prepend" {
				most = 120 << 20 // many short texts become ids before the sum reaches the limit
			}
			assert.Less(t, allocated, most)
			short, err := tok.Encode("a", token.EncodeOptions{})
			require.NoError(t, err, "a short text has room")
			assert.NotNil(t, short)
		})
	}
}

// TestEncodeReservesBeforeItGrows checks that the encoder asks for memory beyond what is
// granted, and takes none that is refused.
func TestEncodeReservesBeforeItGrows(t *testing.T) {
	text := strings.Repeat("ac", 1<<15)
	full := errors.New("the budget is full")
	asked := 0
	for name, extra := range growing() {
		t.Run(name, func(t *testing.T) {
			tok := testutil.Must(token.FromJSON([]byte(bpeJSON(abVocab, "", extra)), token.Config{}))
			granted := int64(256 << 10)
			o := token.EncodeOptions{Granted: granted, Reserve: func(bytes int64) error {
				if granted += bytes; granted > 3<<20 {
					return full
				}
				return nil
			}}
			var err error
			allocated := allocatedBy(func() { _, err = tok.Encode(text, o) })
			require.Error(t, err)
			if errors.Is(err, full) {
				asked++
			}
			assert.Less(t, allocated, int64(8<<20), "garbage of each stage, and the cache of words")
		})
	}
	assert.Equal(t, len(growing())-1, asked, "one long Replace exceeds the limit for text at once")
}

// TestLongWordsAreReserved encodes a megabyte that is a single word. The memory for its ids and for a
// part of it is reserved before it is allocated.
func TestLongWordsAreReserved(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	unigramOfA := testutil.Must(token.FromJSON([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1]]}}`), token.Config{}))
	for _, family := range []string{"gpt2", "spm", "unigram"} {
		tok := unigramOfA
		if family != "unigram" {
			tok = fixture(t, family)
		}
		reserved := int64(0)
		reserve := token.EncodeOptions{Reserve: func(bytes int64) error { reserved += bytes; return nil }}
		var ids []int32
		var err error
		allocated := allocatedBy(func() { ids, err = tok.Encode(text, reserve) })
		require.NoError(t, err)
		require.Equal(t, testutil.Must(tok.Encode(text, token.EncodeOptions{})), ids)
		require.Greater(t, reserved, int64(8*len(ids)), family)
		require.Less(t, reserved, int64(8*len(ids)+6<<20), family)
		require.Less(t, allocated, reserved+1<<20, "%s: with garbage", family)
		full := errors.New("the budget is full")
		reserve.Reserve = func(int64) error { return full }
		allocated = allocatedBy(func() { _, err = tok.Encode(text, reserve) })
		require.ErrorIs(t, err, full)
		require.Less(t, allocated, int64(4<<20), family)
	}
}

// TestGrowthOfRealTextIsNotRefused encodes the characters that grow most in compatibility
// forms, as a long text.
func TestGrowthOfRealTextIsNotRefused(t *testing.T) {
	tok := testutil.Must(token.FromJSON([]byte(bpeJSON(abVocab+`,"▁":3`, "",
		`,"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"StripAccents"}]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}`)), token.Config{}))
	ids, err := tok.Encode(strings.Repeat("\uFDFA ", 1<<16), token.EncodeOptions{})
	require.NoError(t, err)
	require.Len(t, ids, 4<<16+1)
}

// TestAddedTokensAndDecodersThatGrow checks the parts of a file that are rewritten without a
// prompt: a long added token that matches in normalized text, and long pieces in a decoder.
func TestAddedTokensAndDecodersThatGrow(t *testing.T) {
	double := `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`
	long := strings.Repeat("a", 200e3)
	for _, c := range []struct{ name, vocab, extra, field, reason string }{
		{"added token", abVocab, `,"added_tokens":[{"id":3,"content":"` + long + `","normalized":true}],"normalizer":` + sequence("normalizers", 10, double), "normalizer.Replace", "makes more than 865536 bytes of a text of 200000 bytes"},
		{"piece", abVocab + `,"` + long[:40e3] + `":3`, `,"decoder":` + sequence("decoders", 1, double), "decoder", "a token of 40000 bytes longer than 65536 bytes"},
		{"many replacements", abVocab, `,"decoder":` + sequence("decoders", 65, `{"type":"Replace","pattern":{"String":"a"},"content":"b"}`), "decoder", "65 replacements (at most 64)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			file := []byte(bpeJSON(c.vocab, "", c.extra))
			allocated := allocatedBy(func() { _, err = token.FromJSON(file, token.Config{}) })
			var refused *store.FormatError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, c.field, refused.Field)
			assert.Contains(t, refused.Reason, c.reason)
			assert.Less(t, allocated, int64(16*len(file)+1<<20))
		})
	}
}
