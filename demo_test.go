package llmrun_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// reference holds results of another implementation, in float32 with the same bfloat16
// weights.
type reference struct {
	Encode []struct {
		Text    string
		IDs     []int32 `json:"ids"`
		Tokens  []string
		Decoded string
	}
	Logits []struct {
		IDs    []int32   `json:"ids"`
		Top    []int32   `json:"top10_ids"`
		Values []float64 `json:"top10_logits"`
		Mean   float64   `json:"logits_mean"`
		Std    float64   `json:"logits_std"`
	}
	Greedy []struct {
		Prompt, Text string
		IDs          []int32 `json:"ids"`
	}
	LongContext []longContext `json:"long_context"`
	ValNLL      float64       `json:"val_text_first_2049_tokens_mean_nll"`
	ValTokens   int           `json:"val_text_tokens"`
}

// longContext is a long text that contains a fact, and a question about it.
type longContext struct {
	Tokens int
	Prompt []int32 `json:"prompt_ids"`
	Want   []int32 `json:"expected_ids"`
	Text   string  `json:"expected_text"`
	Exact  bool    `json:"model_exact"` // the reference model gives the expected answer
}

func demoReference(t testing.TB) (r reference) {
	testutil.ReadJSON(t, testutil.Shared(t, "demo", "reference.json"), &r)
	return r
}

func TestDemoEncodings(t *testing.T) {
	tokenizer := demo(t).Tokenizer()
	for _, want := range demoReference(t).Encode {
		ids := testutil.Must(tokenizer.Encode(want.Text, llmrun.EncodeOptions{ParseSpecial: true}))
		require.Equal(t, want.IDs, append([]int32{}, ids...), want.Text)
		for i, id := range ids {
			piece, ok := tokenizer.Piece(id)
			require.True(t, ok)
			require.Equal(t, want.Tokens[i], piece)
		}
		text, err := tokenizer.Decode(ids)
		require.NoError(t, err)
		require.Equal(t, want.Decoded, text)
	}
}

// TestDemoLogits allows a difference of a thousandth of the logits' standard deviation,
// because float32 sums depend on their order.
func TestDemoLogits(t *testing.T) {
	for _, want := range demoReference(t).Logits {
		rows, err := demo(t).Logits(context.Background(), want.IDs, nil)
		require.NoError(t, err)
		logits := rows[0]
		tolerance := 1e-3 * want.Std
		var sum, squares float64
		for _, v := range logits {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(len(logits))
		require.InDelta(t, want.Mean, sum/n, tolerance)
		require.InDelta(t, want.Std, math.Sqrt((squares-sum*sum/n)/(n-1)), tolerance)
		for i, id := range want.Top {
			require.InDelta(t, want.Values[i], logits[id], tolerance, "%d tokens, id %d", len(want.IDs), id)
		}
		above := 0
		for _, v := range logits {
			if float64(v) > want.Values[len(want.Values)-1]+tolerance {
				above++
			}
		}
		require.Less(t, above, len(want.Top), "logits above the ten best")
	}
}

func TestDemoGreedy(t *testing.T) {
	for _, want := range demoReference(t).Greedy {
		a := complete(t, newSession(t, demo(t)).Generate(context.Background(), want.Prompt, limit(len(want.IDs))))
		require.Equal(t, want.IDs, a.IDs)
		require.Equal(t, want.Text, a.Text)
	}
}

// validationIDs returns the tokens of the validation text.
func validationIDs(t *testing.T) []int32 {
	text, err := os.ReadFile("testdata/demo/val_text.txt")
	require.NoError(t, err)
	return testutil.Must(demo(t).Tokenizer().Encode(string(text), llmrun.EncodeOptions{}))
}

// TestDemoPerplexity evaluates the beginning of the validation text as one window.
func TestDemoPerplexity(t *testing.T) {
	if portable() && testing.Short() {
		t.Skip("2049 tokens take long without SIMD")
	}
	want := demoReference(t)
	ids := validationIDs(t)
	require.Greater(t, len(ids), want.ValTokens)
	got, err := demo(t).Perplexity(context.Background(), ids[:want.ValTokens], llmrun.PerplexityOptions{Context: want.ValTokens})
	require.NoError(t, err)
	require.Equal(t, want.ValTokens-1, got.Scored)
	require.InEpsilon(t, want.ValNLL, got.MeanNLL, 1e-3)
	require.InEpsilon(t, math.Exp(want.ValNLL), got.PPL, 1e-3)
	t.Logf("mean NLL %.6f, reference %.6f", got.MeanNLL, want.ValNLL)
}

// TestDemoAnswersFromLongContexts asks for facts in texts of 2K to 16K tokens.
func TestDemoAnswersFromLongContexts(t *testing.T) {
	for i, c := range demoReference(t).LongContext {
		t.Run(fmt.Sprintf("%d-%d", i, c.Tokens), func(t *testing.T) {
			if c.Tokens > affordable() {
				t.Skip("a long context; LLMRUN_TEST_LONG=1 reads it")
			}
			require.True(t, c.Exact, "the reference itself fails")
			s := newSession(t, demo(t))
			a := complete(t, s.GenerateIDs(context.Background(), c.Prompt, limit(len(c.Want))))
			require.Equal(t, c.Want, a.IDs, "%q, not %q", a.Text, c.Text)
		})
	}
}
