package index

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/text/token"
)

// embeddingTable is the demo model's embedding of each token.
type embeddingTable struct {
	tokenizer *token.Tokenizer
	rows      [][]float32
	weight    []float64 // of a token: less for frequent ones
	common    []float64 // the mean of passages, which is subtracted; nil for none
}

// readTable reads the table from the model's file: a header in JSON, then tensors in bfloat16.
func readTable(t *testing.T) *embeddingTable {
	t.Helper()
	data, err := os.ReadFile(testutil.Shared(t, "demo", "model.safetensors"))
	require.NoError(t, err)
	head := int(binary.LittleEndian.Uint64(data))
	var tensors map[string]struct {
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	require.NoError(t, json.Unmarshal(data[8:8+head], &tensors))
	at := tensors["model.embed_tokens.weight"]
	require.Len(t, at.Shape, 2)
	body := data[8+head+at.Offsets[0] : 8+head+at.Offsets[1]]
	require.Len(t, body, 2*at.Shape[0]*at.Shape[1])
	table := &embeddingTable{}
	for range at.Shape[0] {
		row := make([]float32, at.Shape[1])
		for i := range row {
			row[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(body)) << 16)
			body = body[2:]
		}
		table.rows = append(table.rows, row)
	}
	text, err := os.ReadFile(testutil.Shared(t, "demo", "tokenizer.json"))
	require.NoError(t, err)
	table.tokenizer, err = token.FromJSON(text, token.Config{})
	require.NoError(t, err)
	return table
}

// ids returns the tokens of a text.
func (e *embeddingTable) ids(t *testing.T, text string) []int32 {
	t.Helper()
	ids, err := e.tokenizer.Encode(text, token.EncodeOptions{})
	require.NoError(t, err)
	return ids
}

// vector returns the weighted mean of the rows of a text's tokens.
func (e *embeddingTable) vector(t *testing.T, text string) []float32 {
	t.Helper()
	sum := make([]float64, len(e.rows[0]))
	total := 0.0
	for _, id := range e.ids(t, text) {
		total += e.weight[id]
		for i, v := range e.rows[id] {
			sum[i] += e.weight[id] * float64(v)
		}
	}
	x := make([]float32, len(sum))
	for i := range x {
		sum[i] /= max(total, 1e-9)
		if e.common != nil {
			sum[i] -= e.common[i]
		}
		x[i] = float32(sum[i])
	}
	return x
}

// fit sets the weights and the common vector by the passages: smooth inverse frequency.
func (e *embeddingTable) fit(t *testing.T, passages []string) {
	t.Helper()
	count, total := make([]float64, len(e.rows)), 0.0
	for _, text := range passages {
		for _, id := range e.ids(t, text) {
			count[id]++
			total++
		}
	}
	e.weight = make([]float64, len(count))
	for id, n := range count {
		e.weight[id] = 1e-3 / (1e-3 + n/total)
	}
	common := make([]float64, len(e.rows[0]))
	for _, text := range passages {
		for i, v := range e.vector(t, text) {
			common[i] += float64(v) / float64(len(passages))
		}
	}
	e.common = common
}

// TestTheEmbeddingTableIsNoEncoder measures whether means of the demo model's embeddings find more of the demo's notes,
// alone or fused with words. They do not, so that an index without an encoder has words alone. If this test fails
// because they do, use them.
func TestTheEmbeddingTableIsNoEncoder(t *testing.T) {
	table := readTable(t)
	x, questions, texts := demoIndex(t)
	w, err := x.Begin()
	require.NoError(t, err)
	var keys []Key
	var passages []string
	for file, text := range texts {
		for _, p := range w.Missing(file) {
			keys, passages = append(keys, p.Key), append(passages, EmbedText(x.Title(file), text[p.Start:p.End]))
		}
	}
	table.fit(t, passages)
	var vectors [][]float32
	for _, text := range passages {
		vectors = append(vectors, table.vector(t, text))
	}
	require.NoError(t, w.PutVectors(keys, vectors))
	require.NoError(t, w.Close())
	share := map[string][2]float64{}
	for name, query := range map[string]func(q *demoQuestion) Query{
		"words":   func(q *demoQuestion) Query { return Query{Text: q.Question} },
		"vectors": func(q *demoQuestion) Query { return Query{Vector: table.vector(t, q.Question), VectorsOnly: true} },
		"fused":   func(q *demoQuestion) Query { return Query{Text: q.Question, Vector: table.vector(t, q.Question)} },
	} {
		share[name] = [2]float64{rightAmong(t, x, questions, 1, query), rightAmong(t, x, questions, 3, query)}
		t.Logf("%s: first %.1f %%, first three %.1f %%", name, 100*share[name][0], 100*share[name][1])
	}
	require.Less(t, share["fused"][0]+share["fused"][1], share["words"][0]+share["words"][1])
	require.Less(t, share["vectors"][1], share["words"][1])
}
