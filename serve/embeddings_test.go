package serve

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestEmbeddings asks for vectors in each form: they are those of the library, and the same in all.
func TestEmbeddings(t *testing.T) {
	s := demo()
	answer := postOK(t, s, "/v1/embeddings", `{"model":"demo","input":["a fox","a bird"]}`)
	require.Equal(t, "list", at(answer, "object"))
	require.Equal(t, "embedding", at(answer, "data", 1, "object"))
	require.EqualValues(t, 1, at(answer, "data", 1, "index"))
	require.Positive(t, at(answer, "usage", "total_tokens"))
	bird := at(answer, "data", 1, "embedding").([]any)
	m := demoModel()
	e, err := llmrun.Open(m.Path, m.Options)
	require.NoError(t, err)
	defer e.Close()
	vectors, err := e.Embed(t.Context(), []string{"a bird"}, llmrun.EmbedOptions{})
	require.NoError(t, err)
	require.Len(t, bird, len(vectors[0]))
	for i, x := range vectors[0] {
		require.EqualValues(t, x, float32(bird[i].(float64)))
	}

	packed := postOK(t, s, "/v1/embeddings", `{"model":"demo","input":"a bird","encoding_format":"base64"}`)
	data, err := base64.StdEncoding.DecodeString(at(packed, "data", 0, "embedding").(string))
	require.NoError(t, err)
	require.Len(t, data, 4*len(bird))
	for i := range bird {
		require.EqualValues(t, float32(bird[i].(float64)), math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}

	short := at(postOK(t, s, "/v1/embeddings", `{"model":"demo","input":"a bird","dimensions":8}`), "data", 0, "embedding").([]any)
	require.Len(t, short, 8)
	sum := 0.0
	for _, x := range short {
		sum += x.(float64) * x.(float64)
	}
	require.InDelta(t, 1, sum, 1e-5)

	require.Equal(t, bird, at(postOK(t, s, "/api/embed", `{"model":"demo","input":["a fox","a bird"]}`), "embeddings", 1))
	raw := at(postOK(t, s, "/api/embeddings", `{"model":"demo","prompt":"a bird"}`), "embedding").([]any)
	long, err := e.Embed(t.Context(), []string{"a bird"}, llmrun.EmbedOptions{Raw: true})
	require.NoError(t, err)
	require.Len(t, raw, len(bird))
	for i, x := range long[0] {
		require.EqualValues(t, x, float32(raw[i].(float64)), "the older endpoint leaves the length of vectors as it is")
	}
	ids, err := e.EncodeText("a bird", llmrun.EncodeOptions{Special: true})
	require.NoError(t, err)
	list, err := json.Marshal(ids)
	require.NoError(t, err)
	require.Equal(t, bird, at(postOK(t, s, "/v1/embeddings", fmt.Sprintf(`{"model":"demo","input":[%s]}`, list)), "data", 0, "embedding"))
}

// TestLongTextsOfEmbeddings: OpenAI's API refuses texts that are too long, and ollama's cuts them unless it shall not.
func TestLongTextsOfEmbeddings(t *testing.T) {
	s := newDemo(func(o *Options) { o.Models[0].Options.Context = 64 })
	defer s.Close()
	long := strings.Repeat("a fox ran. ", 30)
	w := post(s, "/v1/embeddings", fmt.Sprintf(`{"model":"demo","input":%q}`, long))
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), "context_length_exceeded")
	w = post(s, "/api/embed", fmt.Sprintf(`{"model":"demo","input":%q,"truncate":false}`, long))
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body.String())
	cut := postOK(t, s, "/api/embed", fmt.Sprintf(`{"model":"demo","input":%q}`, long))
	require.EqualValues(t, 64, at(cut, "prompt_eval_count"))
}

// TestRerankNeedsTokens: a model without a tokenizer ranks no texts.
func TestRerankNeedsTokens(t *testing.T) {
	s, err := New(Options{Models: []Model{{Name: "reward", Path: testutil.Shared(t, "fixtures2026", "qwen3_reward")}, demoModel()}})
	require.NoError(t, err)
	defer s.Close()
	w := post(s, "/v1/rerank", `{"model":"reward","query":"a","documents":["b"]}`)
	require.Equal(t, http.StatusBadRequest, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), "accepts only token ids")
}
