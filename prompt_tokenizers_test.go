package llmrun_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// unigramJSON returns a tokenizer of the Unigram kind with pieces of English, whose words are not split.
func unigramJSON(extra string) string {
	var vocab strings.Builder
	vocab.WriteString(`["<unk>",0]`)
	pieces := strings.Fields("▁the ▁of ▁and th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur")
	for c := 'a'; c <= 'z'; c++ {
		pieces = append(pieces, string(c))
	}
	for i, piece := range append(pieces, "▁") {
		fmt.Fprintf(&vocab, `,[%q,-%d.5]`, piece, 2+i/8)
	}
	for b := range 256 {
		fmt.Fprintf(&vocab, `,["<0x%02X>",-20]`, b)
	}
	return `{"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[` + vocab.String() + `]}` + extra + `}`
}

// tokenizersOfAllKinds returns a tokenizer of each kind: byte-level BPE and SentencePiece of published
// models and of small ones, and Unigram, with and without a stage that splits words.
func tokenizersOfAllKinds(t *testing.T) map[string]*token.Tokenizer {
	all := map[string]*token.Tokenizer{}
	for _, name := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		data := testutil.Must(os.ReadFile(filepath.Join("text/token/testdata", name, "tokenizer.json")))
		all[name] = testutil.Must(token.FromJSON(data, token.Config{}))
	}
	for _, name := range []string{"llama-spm", "phi-3", "gpt-2", "deepseek-llm"} {
		file := testutil.Must(gguf.Open(vfs.OS(), testutil.Shared(t, "vocab", name+".gguf")))
		all[name] = testutil.Must(token.FromGGUF(file.Meta()))
		require.NoError(t, file.Close())
	}
	for name, extra := range map[string]string{
		"unigram":       `,"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}`,
		"unigram words": `,"pre_tokenizer":{"type":"Metaspace","replacement":"▁"}`,
		"unigram text":  `,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","split":false}`,
	} {
		all[name] = testutil.Must(token.FromJSON([]byte(unigramJSON(extra)), token.Config{}))
	}
	return all
}

// promptsOf returns texts of n bytes: prose, without white space, of one letter, and in a script of which
// small vocabularies have no characters.
func promptsOf(t *testing.T, n int) map[string]string {
	prose := string(testutil.Must(os.ReadFile(testutil.Shared(t, "demo", "long_text.txt"))))
	prose = strings.Repeat(prose, n/len(prose)+1)[:n]
	dense := strings.Join(strings.Fields(prose), "")
	return map[string]string{
		"prose": prose, "no white space": strings.Repeat(dense, 2)[:n], "one letter": strings.Repeat("x", n),
		"one unknown letter": strings.Repeat("ж", n/2), "another script": strings.Repeat("空白のない文章。", n/24),
	}
}

// TestPromptMemoryIsEnoughForEveryTokenizer encodes texts with the memory that is reserved for them. No
// tokenizer asks for more. Of the long texts, each tokenizer gets one kind, and each kind some of the
// tokenizers; LLMRUN_TEST_SWEEP=1 encodes all of them, and longer ones.
func TestPromptMemoryIsEnoughForEveryTokenizer(t *testing.T) {
	t.Parallel()
	sizes := []int{1 << 10, 90e3, 1 << 20, 5 << 20}[:testutil.Effort(3, 4)]
	if testing.Short() {
		sizes = sizes[:2]
	}
	more := errors.New("asked for more")
	tokenizers := tokenizersOfAllKinds(t)
	for _, n := range sizes {
		texts := promptsOf(t, n)
		for i, name := range slices.Sorted(maps.Keys(tokenizers)) {
			for j, kind := range slices.Sorted(maps.Keys(texts)) {
				if n >= 1<<20 && (i+j)%testutil.Effort(len(texts), 1) != 0 {
					continue
				}
				text := texts[kind]
				o := token.EncodeOptions{Granted: llmrun.GrantedFor(len(text)), Reserve: func(bytes int64) error {
					return fmt.Errorf("%w: %d bytes", more, bytes)
				}}
				ids, err := tokenizers[name].Encode(text, o)
				require.NoError(t, err, "%s: %s of %d bytes", name, kind, len(text))
				require.NotEmpty(t, ids)
			}
		}
	}
}
