package token_test

import (
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// BenchmarkEncode encodes prose with published vocabularies.
func BenchmarkEncode(b *testing.B) {
	text := strings.Repeat(readText(b, testutil.Shared(b, "demo", "long_text.txt")), 10)
	for _, name := range []string{"gpt-2", "deepseek-llm", "llama-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := vocabulary(b, name)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var ids []int32
			for b.Loop() {
				ids = testutil.Must(tok.AppendEncode(ids[:0], text, token.EncodeOptions{}))
			}
		})
	}
}

// BenchmarkLoad builds tokenizers from parsed metadata.
func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"gpt-2", "deepseek-llm", "llama-spm"} {
		b.Run(name, func(b *testing.B) {
			file, err := gguf.Open(vfs.OS(), testutil.Shared(b, "vocab", name+".gguf"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := token.FromGGUF(file.Meta()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOneLetter encodes a megabyte that no pre-tokenizer can split.
func BenchmarkOneLetter(b *testing.B) {
	text := strings.Repeat("a", 1<<20)
	for _, name := range []string{"gpt-2", "llama-spm"} {
		b.Run(name, func(b *testing.B) {
			tok := vocabulary(b, name)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				testutil.Must(tok.Encode(text, token.EncodeOptions{}))
			}
		})
	}
}
