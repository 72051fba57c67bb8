package llmrun_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// judgeTemplate is the template of the published rerankers of Qwen3, as converters write it to a GGUF file.
const judgeTemplate = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
	"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages " +
	"that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

const judgeVocab, judgeYes, judgeNo = 512, 501, 502

// judge is a reranker as Qwen3's are: a causal model whose next token is yes or no.
type judge struct {
	tensors []safetensors.TensorData
	config  map[string]any
	vocab   map[string]int
	merges  [][2]string
	special []int
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{config: map[string]any{}, vocab: map[string]int{"ye": 500, "yes": judgeYes, "no": judgeNo, "<think>": 503, "</think>": 504}}
	path := testutil.Shared(t, "fixtures2026", "qwen3_reward")
	testutil.ReadJSON(t, filepath.Join(path, "config.json"), &j.config)
	j.config["architectures"] = []string{"Qwen3ForCausalLM"}
	delete(j.config, "id2label")
	src := testutil.Must(safetensors.Open(vfs.OS(), path))
	defer src.Close()
	for _, tensor := range src.Tensors() {
		data := make([]byte, tensor.Size)
		_, err := src.ReadAt(tensor, data, 0)
		require.NoError(t, err)
		if tensor.Name != "score.weight" {
			j.tensors = append(j.tensors, safetensors.TensorData{Name: tensor.Name, Type: tensor.Type, Shape: tensor.Shape, Data: data})
		}
	}
	var file struct {
		Added []struct{ ID int } `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges [][2]string
		}
	}
	testutil.ReadJSON(t, filepath.Join("text", "token", "testdata", "qwen2", "tokenizer.json"), &file)
	for piece, id := range file.Model.Vocab {
		if id < 500 {
			j.vocab[piece] = id
		}
	}
	for _, a := range file.Added {
		j.special = append(j.special, a.ID)
	}
	j.vocab["<|endoftext|>"], j.vocab["<|im_start|>"], j.vocab["<|im_end|>"] = 0, 1, 2
	j.merges = [][2]string{{"y", "e"}, {"ye", "s"}, {"n", "o"}}
	for _, m := range file.Model.Merges {
		if _, known := j.vocab[m[0]+m[1]]; known {
			j.merges = append(j.merges, m)
		}
	}
	return j
}

// checkpoint writes the causal model as it is published.
func (j *judge) checkpoint(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var file map[string]any
	testutil.ReadJSON(t, filepath.Join("text", "token", "testdata", "qwen2", "tokenizer.json"), &file)
	for _, name := range []string{"<think>", "</think>"} {
		file["added_tokens"] = append(file["added_tokens"].([]any), map[string]any{"id": j.vocab[name], "content": name, "special": false, "normalized": false})
	}
	file["model"].(map[string]any)["vocab"], file["model"].(map[string]any)["merges"] = j.vocab, j.merges
	for name, content := range map[string]any{"config.json": j.config, "tokenizer.json": file} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), testutil.Must(json.Marshal(content)), 0o600))
	}
	require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(dir, "model.safetensors"), j.tensors))
	return dir
}

// file writes a GGUF file: of the causal model, or with the rows of yes and no as a head, as converters of rerankers do.
func (j *judge) file(t *testing.T, withHead bool) string {
	t.Helper()
	pieces, types := make([]string, judgeVocab), make([]int32, judgeVocab)
	for i := range pieces {
		pieces[i], types[i] = "[PAD"+string(rune('A'+i%26))+string(rune('a'+i/26))+"]", 5
	}
	for piece, id := range j.vocab {
		pieces[id], types[id] = piece, 1
	}
	for _, id := range j.special {
		types[id] = 3
	}
	types[503], types[504] = 4, 4
	var merges []string
	for _, m := range j.merges {
		merges = append(merges, m[0]+" "+m[1])
	}
	more := []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "qwen2"},
		{Key: "tokenizer.ggml.tokens", Value: pieces},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: merges},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
	}
	tensors, first := j.tensors, ""
	if withHead {
		first = "yes"
		more = append(more, gguf.KV{Key: "tokenizer.chat_template.rerank", Value: judgeTemplate})
		for _, d := range j.tensors {
			if strings.HasSuffix(d.Name, "embed_tokens.weight") {
				row := len(d.Data) / judgeVocab
				rows := slices.Concat(d.Data[judgeYes*row:(judgeYes+1)*row], d.Data[judgeNo*row:(judgeNo+1)*row])
				tensors = append(slices.Clone(tensors), safetensors.TensorData{Name: "cls.output.weight", Type: d.Type, Shape: []int{2, d.Shape[1]}, Data: rows})
			}
		}
	} else {
		more = append(more, gguf.KV{Key: "qwen3.pooling_type", Value: uint32(0)})
	}
	return writeGGUF(t, filepath.Join(t.TempDir(), "m.gguf"), tensors, j.config, first, more...)
}

// TestRerankersThatJudge: the score of a reranker of Qwen3 is how much greater the logit of yes is than that of no behind its
// template, in a checkpoint, in a GGUF file of the causal model, and in one with a head. What a query or a document spells is
// no mark of a turn, and a word behind the template's space is the token that it is in the whole text.
func TestRerankersThatJudge(t *testing.T) {
	j := newJudge(t)
	ctx, o := context.Background(), llmrun.Options{Threads: 1, Exact: true}
	e := open(t, j.checkpoint(t), o)
	texts := []string{"The bees swarm in May, yes.", "no", "", " the {query} and {document} of <Query>: it", "a <|im_end|> b"}
	const query = "the bees {document} swarm when"
	var want []float32
	for _, text := range texts {
		all := strings.NewReplacer("{query}", query, "{document}", text).Replace(judgeTemplate)
		ids, err := e.EncodeText(all, llmrun.EncodeOptions{ParseSpecial: true})
		require.NoError(t, err)
		if before, behind, spells := strings.Cut(text, "<|im_end|>"); spells {
			ids = nil
			begin, end, _ := strings.Cut(strings.ReplaceAll(judgeTemplate, "{query}", query), "{document}<|im_end|>")
			end = "<|im_end|>" + end
			for _, part := range []struct {
				text    string
				special bool
			}{{begin + before, true}, {"<|im_end|>" + behind, false}, {end, true}} {
				more, err := e.EncodeText(part.text, llmrun.EncodeOptions{ParseSpecial: part.special})
				require.NoError(t, err)
				ids = append(ids, more...)
			}
		}
		rows, err := e.Logits(ctx, ids, []int{len(ids) - 1})
		require.NoError(t, err)
		want = append(want, rows[0][judgeYes]-rows[0][judgeNo])
	}
	for name, path := range map[string]string{"checkpoint": j.checkpoint(t), "causal GGUF": j.file(t, false), "GGUF with a head": j.file(t, true)} {
		e := open(t, path, o)
		got, err := e.Rank(ctx, query, texts)
		require.NoError(t, err, name)
		for i := range texts {
			require.InDelta(t, want[i], got[i], 1e-3, "%s: %q", name, texts[i])
			require.Greater(t, math.Abs(float64(got[i])), 1e-2, "%s: a score that tells nothing", name)
		}
	}
}
