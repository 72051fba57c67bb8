package llmrun_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// rewardReference is what transformers computed for a reward model, in float32.
type rewardReference struct {
	Sequences []struct {
		IDs    []int32
		Logits []float64
		Hidden map[string][]float64 `json:"last_hidden_state"`
	}
}

// rewarding returns options with a reward model.
func rewarding(path string) llmrun.Options {
	return llmrun.Options{Threads: 1, Context: 256, Reward: llmrun.RewardOptions{Model: path}}
}

// TestRewardHeadScoresAsItsReference compares the scores of a sequence-classification head, in an order in which
// sequences share beginnings and repeat.
func TestRewardHeadScoresAsItsReference(t *testing.T) {
	path := testutil.Shared(t, "fixtures2026", "qwen3_reward")
	var ref rewardReference
	testutil.ReadJSON(t, filepath.Join(path, "reference.json"), &ref)
	e := open(t, tinyModel(t, nil), rewarding(path))
	ctx := context.Background()
	for _, s := range append(ref.Sequences, ref.Sequences...) {
		want, err := e.RewardIDs(ctx, s.IDs)
		require.NoError(t, err)
		require.InDelta(t, s.Logits[0], want.Score, 1e-3)
		_, err = e.RewardIDs(ctx, s.IDs[:len(s.IDs)-2]) // the beginning stays
		require.NoError(t, err)
		got, err := e.RewardIDs(ctx, s.IDs)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := e.RewardIDs(ctx, nil)
	require.ErrorIs(t, err, llmrun.ErrOptions)
	_, err = e.RewardIDs(ctx, make([]int32, 1000))
	require.ErrorIs(t, err, llmrun.ErrContextFull)
	_, err = e.Reward(ctx, llmrun.Prompt{Text: "x"}, "y")
	require.ErrorIs(t, err, llmrun.ErrNoTokenizer)
}

// TestOtherRewardHeads gives the reference's network other heads, and compares their scores with those that its hidden
// states have in float64.
func TestOtherRewardHeads(t *testing.T) {
	path := testutil.Shared(t, "fixtures2026", "qwen3_reward")
	var ref rewardReference
	testutil.ReadJSON(t, filepath.Join(path, "reference.json"), &ref)
	for _, c := range []struct {
		name   string
		labels int
		bias   bool
		scalar bool   // the bias has no dimensions
		first  string // label
		gguf   bool
	}{
		{name: "v_head.summary", labels: 1, bias: true},
		{name: "score", labels: 1, bias: true, scalar: true},
		{name: "score", labels: 2},
		{name: "score", labels: 2, first: "yes"},
		{name: "cls.output", labels: 1, gguf: true},
		{name: "cls.output", labels: 2, bias: true, first: "yes", gguf: true},
	} {
		r := rand.New(rand.NewPCG(7, uint64(c.labels)))
		dim := len(ref.Sequences[0].Hidden["0"])
		weight, bias := make([]float32, c.labels*dim), make([]float32, c.labels)
		for _, values := range [][]float32{weight, bias} {
			for i := range values {
				values[i] = float32(r.NormFloat64()) / 4
			}
		}
		head := []safetensors.TensorData{floats(c.name+".weight", weight, c.labels, dim)}
		if c.bias {
			shape := []int{c.labels}
			if c.scalar {
				shape = nil
			}
			head = append(head, floats(c.name+".bias", bias, shape...))
		}
		model := withHead(t, path, head, c.first, c.gguf)
		e := open(t, tinyModel(t, nil), rewarding(model))
		for _, s := range ref.Sequences[:3] {
			hidden, values := s.Hidden[lastRow(s.IDs)], make([]float64, c.labels)
			for i := range values {
				for k, x := range hidden {
					values[i] += x * float64(weight[i*dim+k])
				}
				if c.bias {
					values[i] += float64(bias[i])
				}
			}
			want := values[0]
			if c.labels == 2 {
				want = math.Exp(values[1]) / (math.Exp(values[0]) + math.Exp(values[1]))
				if c.first == "yes" {
					want = 1 - want
				}
			}
			got, err := e.RewardIDs(context.Background(), s.IDs)
			require.NoError(t, err)
			require.InDelta(t, want, got.Score, 1e-3, c.name)
		}
	}
}

func lastRow(ids []int32) string {
	data, _ := json.Marshal(len(ids) - 1)
	return string(data)
}

// floats returns a tensor in float32.
func floats(name string, values []float32, shape ...int) safetensors.TensorData {
	d := safetensors.TensorData{Name: name, Type: quant.F32, Shape: shape}
	for _, v := range values {
		d.Data = binary.LittleEndian.AppendUint32(d.Data, math.Float32bits(v))
	}
	return d
}

// withHead writes a copy of a checkpoint with another head.
func withHead(t *testing.T, path string, head []safetensors.TensorData, first string, asGGUF bool) string {
	t.Helper()
	src := testutil.Must(safetensors.Open(vfs.OS(), path))
	defer src.Close()
	out, tensors := t.TempDir(), head
	for _, tensor := range src.Tensors() {
		if tensor.Name == "score.weight" {
			continue
		}
		data := make([]byte, tensor.Size)
		_, err := src.ReadAt(tensor, data, 0)
		require.NoError(t, err)
		tensors = append(tensors, safetensors.TensorData{Name: tensor.Name, Type: tensor.Type, Shape: tensor.Shape, Data: data})
	}
	config := map[string]any{}
	testutil.ReadJSON(t, filepath.Join(path, "config.json"), &config)
	if asGGUF {
		return writeGGUF(t, filepath.Join(out, "m.gguf"), tensors, config, first)
	}
	config["tie_word_embeddings"] = false // and yet there is no output matrix, as in published reward models
	if first != "" {
		config["id2label"] = map[string]string{"0": first, "1": "no"}
	}
	require.NoError(t, os.WriteFile(filepath.Join(out, "config.json"), testutil.Must(json.Marshal(config)), 0o600))
	require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(out, "model.safetensors"), tensors))
	return out
}

// writeGGUF writes a qwen3 checkpoint as a GGUF file. Keys of more replace others.
func writeGGUF(t *testing.T, path string, tensors []safetensors.TensorData, config map[string]any, first string, more ...gguf.KV) string {
	t.Helper()
	names := strings.NewReplacer("model.layers.", "blk.", "model.embed_tokens", "token_embd", "model.norm", "output_norm",
		"input_layernorm", "attn_norm", "post_attention_layernorm", "ffn_norm", "self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
		"self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down")
	keys := []gguf.KV{{Key: "general.architecture", Value: "qwen3"}, {Key: "tokenizer.ggml.model", Value: "none"}, {Key: "qwen3.pooling_type", Value: uint32(4)}}
	for key, field := range map[string]string{
		"block_count": "num_hidden_layers", "embedding_length": "hidden_size", "context_length": "max_position_embeddings", "vocab_size": "vocab_size",
		"attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim", "attention.value_length": "head_dim",
		"feed_forward_length": "intermediate_size",
	} {
		keys = append(keys, gguf.KV{Key: "qwen3." + key, Value: uint32(config[field].(float64))})
	}
	for key, field := range map[string]string{"attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta"} {
		keys = append(keys, gguf.KV{Key: "qwen3." + key, Value: float32(config[field].(float64))})
	}
	if first != "" {
		keys = append(keys, gguf.KV{Key: "qwen3.classifier.output_labels", Value: []string{first, "no"}})
	}
	for _, kv := range more {
		keys = slices.DeleteFunc(keys, func(other gguf.KV) bool { return other.Key == kv.Key })
		keys = append(keys, kv)
	}
	var data []gguf.TensorData
	for _, d := range tensors {
		data = append(data, gguf.TensorData{Name: names.Replace(d.Name), Type: d.Type, Shape: d.Shape, Data: d.Data})
	}
	require.NoError(t, gguf.Write(vfs.OS(), path, keys, data))
	return path
}

// TestProcessRewardScoresSteps compares the scores of steps with the logits of the same model behind each marker.
func TestProcessRewardScoresSteps(t *testing.T) {
	o := rewarding(demoModel)
	o.Memory.KV = "f32"
	o.Reward.Marker, o.Reward.Good, o.Reward.Bad, o.Reward.Step = "#", "7", "8", "\n"
	e := open(t, demoModel, o)
	ctx := context.Background()
	messages := []llmrun.Message{{Role: "user", Content: "What is 3 + 4?"}}
	got, err := e.Reward(ctx, llmrun.Prompt{Messages: messages}, "3 is one.\n4 is two.\n")
	require.NoError(t, err)
	require.Len(t, got.Steps, 2)
	require.Equal(t, min(got.Steps[0], got.Steps[1]), got.Score)

	messages = append(messages, llmrun.Message{Role: "assistant", Content: "3 is one. #\n4 is two. #"})
	ids, err := e.EncodeChat(messages, llmrun.ChatOptions{NoGenerationPrompt: true})
	require.NoError(t, err)
	last := func(text string) int32 {
		ids, err := e.Tokenizer().Encode(text, llmrun.EncodeOptions{})
		require.NoError(t, err)
		return ids[len(ids)-1]
	}
	step := 0
	every := make([]int, len(ids))
	for i := range every {
		every[i] = i
	}
	all, err := e.Logits(ctx, ids, every)
	require.NoError(t, err)
	for i, id := range ids {
		if id == last("#") {
			good, bad := math.Exp(float64(all[i][last("7")])), math.Exp(float64(all[i][last("8")]))
			require.InDelta(t, good/(good+bad), got.Steps[step], 1e-6)
			step++
		}
	}
	require.Equal(t, 2, step)
	more, err := e.Reward(ctx, llmrun.Prompt{Messages: messages[:1]}, "3 is one.\n4 is two.\nSo it is 7.")
	require.NoError(t, err)
	require.Equal(t, got.Steps, more.Steps[:2], "a beginning has the scores that it has alone")

	own, err := e.Reward(ctx, llmrun.Prompt{Messages: messages[:1]}, "3 is one.\n4 # is # two.")
	require.NoError(t, err)
	require.Equal(t, got.Steps[0], own.Steps[0], "markers in the answer end no steps")
	require.Len(t, own.Steps, 2)
}

// TestRewardIsPlanned compares the memory of an engine with its plan, and a budget below the minimum.
func TestRewardIsPlanned(t *testing.T) {
	path := testutil.Shared(t, "fixtures2026", "qwen3_reward")
	model, plain := tinyModel(t, nil), rewarding("")
	least := minimum(t, model, rewarding(path))
	require.Greater(t, least, minimum(t, model, plain)+(240<<10), "the reward model has 240 KB")
	o := rewarding(path)
	o.Memory.RAM = least - 1
	_, err := llmrun.Open(model, o)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	o.Memory.RAM = least
	e := open(t, model, o)
	_, err = e.RewardIDs(context.Background(), make([]int32, 100))
	require.NoError(t, err)
	report := e.Memory()
	require.Equal(t, report.Plan.By["reward model"], report.Peak["reward model"])
	require.LessOrEqual(t, report.Ledger, o.Memory.RAM)
}

// TestRewardModelsWithoutHeads refuses models that score nothing, and options that contradict each other.
func TestRewardModelsWithoutHeads(t *testing.T) {
	model := tinyModel(t, nil)
	refusesLike(t, model, rewarding(model), "no head that scores (known: score.weight, v_head.summary.weight, cls.output.weight, classifier.out_proj.weight, classifier.weight, score.2.weight)")
	refusesLike(t, model, rewarding("nowhere"), "Reward.Model")
	for _, o := range []llmrun.RewardOptions{{Marker: "x"}, {Step: "x"}, {Model: model, Good: "x"}} {
		_, err := llmrun.Open(model, llmrun.Options{Reward: o})
		require.ErrorIs(t, err, llmrun.ErrOptions)
	}
	marked := rewarding(demoModel)
	marked.Reward.Marker = "a marker of several tokens"
	refusesLike(t, model, marked, "it must be one")
	e := open(t, model, llmrun.Options{})
	_, err := e.RewardIDs(context.Background(), []int32{1})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.NoError(t, e.Close())
	_, err = e.RewardIDs(context.Background(), []int32{1})
	require.ErrorIs(t, err, llmrun.ErrClosed)
}
