package token_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/llmrun/llmrun/internal/bound"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/text/token"
)

// FuzzEncodeDecode checks that any bytes survive a round trip, that Decode returns valid
// UTF-8 and that plain text never becomes a special token.
func FuzzEncodeDecode(f *testing.F) {
	for _, text := range []string{"", "Hello, world!", "don't  \n\n 1234 é你😀", "\xff\x00", "<|im_end|>", "▁a  b", " \t "} {
		f.Add(text)
	}
	var toks []*token.Tokenizer
	for _, family := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		toks = append(toks, fixture(f, family))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids := testutil.Must(tok.Encode(text, token.EncodeOptions{}))
			raw, err := tok.AppendBytes(nil, ids)
			if err != nil {
				t.Fatal(err)
			}
			// The normalizer of the third family applies NFC. The last two families
			// spell a space as "▁".
			rewritten := i == 2 && !norm.NFC.IsNormalString(text) || i >= 3 && strings.Contains(text, "▁")
			if string(raw) != text && !rewritten {
				t.Fatalf("tokenizer %d: the round trip of %q returned %q", i, text, raw)
			}
			decoded, err := tok.Decode(ids)
			if err != nil || !utf8.ValidString(decoded) {
				t.Fatalf("tokenizer %d: %q, %v", i, decoded, err)
			}
			for _, id := range ids {
				if tok.IsSpecial(id) {
					t.Fatalf("tokenizer %d: text became the special token %d", i, id)
				}
			}
		}
	})
}

// FuzzTokenizerJSON checks that no tokenizer file causes a panic, a long run time or an
// allocation out of proportion to its size, and that an accepted tokenizer can encode
// and decode.
func FuzzTokenizerJSON(f *testing.F) {
	for _, extra := range []string{
		"",
		`,"added_tokens":[{"id":3,"content":"<x>","special":true,"normalized":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prepend":"a"}]}`,
		`,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{N}{1,3}| ?[^\\s\\p{L}]+"},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":true}]},"decoder":{"type":"ByteLevel"}`,
		`,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},"decoder":{"type":"Metaspace","replacement":"▁"}`,
		`,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},{"Sequence":{"id":"A"}}],"special_tokens":{"a":{"ids":[0]}}}`,
	} {
		f.Add([]byte(bpeJSON(abVocab, `"a b"`, extra)))
	}
	f.Add([]byte(`{"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0],["a",-1.5],["ab",-2]]}}`))
	f.Add([]byte(`{"model":{"type":"Unigram","vocab":[["a",0]]},"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAIBhAA=="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tok *token.Tokenizer
		var err error
		bound.Check(t, len(data), func() { tok, err = token.FromJSON(data, token.Config{}) })
		if err != nil {
			return
		}
		for _, text := range []string{"ab<x> 12 \xff a▁b", ""} {
			ids := testutil.Must(tok.Encode(text, token.EncodeOptions{AddSpecial: true, AllowSpecial: true}))
			if _, err := tok.Decode(ids); err != nil {
				t.Fatal(err)
			}
		}
	})
}
