package hubmodel

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// Encoder is a BERT of random weights with a tokenizer, as sentence-transformers stores it. Its layers change little of what the
// embeddings of words say, so that texts with words in common have similar vectors.
type Encoder struct {
	Words    []string // tokens of the vocabulary, beside letters and digits
	Seed     uint64
	Dim      int // 0 means 64
	Layers   int // 0 means 2
	Vocab    int // at least; the rest are tokens that no text has
	Scores   bool
	MaxToken int // positions; 0 means 512
}

// Write writes the model to a directory.
func (e Encoder) Write(dir string) error {
	dim, layers, positions := max(e.Dim, 64), max(e.Layers, 2), 512
	if e.MaxToken > 0 {
		positions = e.MaxToken
	}
	pieces := e.pieces()
	if err := os.MkdirAll(filepath.Join(dir, "1_Pooling"), 0o700); err != nil {
		return err
	}
	architecture, root := "BertModel", ""
	if e.Scores {
		architecture, root = "BertForSequenceClassification", "bert."
	}
	files := map[string]string{
		"config.json": fmt.Sprintf(`{"architectures":[%q],"model_type":"bert","hidden_act":"gelu","hidden_size":%d,"intermediate_size":%d,"layer_norm_eps":1e-12,
			"max_position_embeddings":%d,"num_attention_heads":%d,"num_hidden_layers":%d,"pad_token_id":0,"position_embedding_type":"absolute","type_vocab_size":2,
			"vocab_size":%d,"torch_dtype":"float16","id2label":{"0":"LABEL_0"},"label2id":{"LABEL_0":0}}`, architecture, dim, 4*dim, positions, dim/32, layers, len(pieces)),
		"tokenizer.json":          wordPiece(pieces),
		"1_Pooling/config.json":   fmt.Sprintf(`{"word_embedding_dimension":%d,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}`, dim),
		"modules.json":            `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]`,
		"tokenizer_config.json":   `{"tokenizer_class":"BertTokenizer"}`,
		"special_tokens_map.json": `{"cls_token":"[CLS]","sep_token":"[SEP]","unk_token":"[UNK]","pad_token":"[PAD]","mask_token":"[MASK]"}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	w := tensorWriter{random: rand.New(rand.NewPCG(7, e.Seed))}
	w.add(root+"embeddings.word_embeddings.weight", 1, len(pieces), dim)
	w.add(root+"embeddings.position_embeddings.weight", 0.01, positions, dim)
	w.add(root+"embeddings.token_type_embeddings.weight", 0.01, 2, dim)
	w.norm(root+"embeddings.LayerNorm", dim)
	for l := range layers {
		at := fmt.Sprintf("%sencoder.layer.%d.", root, l)
		for _, name := range []string{"attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"} {
			w.dense(at+name, dim, dim)
		}
		w.norm(at+"attention.output.LayerNorm", dim)
		w.dense(at+"intermediate.dense", 4*dim, dim)
		w.dense(at+"output.dense", dim, 4*dim)
		w.norm(at+"output.LayerNorm", dim)
	}
	if e.Scores {
		w.dense(root+"pooler.dense", dim, dim)
		w.dense("classifier", 1, dim)
	}
	return safetensors.Write(vfs.OS(), filepath.Join(dir, "model.safetensors"), w.tensors)
}

// pieces returns the vocabulary.
func (e Encoder) pieces() []string {
	pieces := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for _, c := range "abcdefghijklmnopqrstuvwxyz0123456789" {
		pieces = append(pieces, string(c), "##"+string(c))
	}
	pieces = append(pieces, strings.Split(`. , ? ! : ; ' " ( ) - # / [ ]`, " ")...)
	for _, word := range e.Words {
		if len(word) > 1 {
			pieces = append(pieces, word)
		}
	}
	for i := len(pieces); i < e.Vocab; i++ {
		pieces = append(pieces, fmt.Sprintf("[unused%d]", i))
	}
	return pieces
}

// wordPiece returns the tokenizer.json of a vocabulary.
func wordPiece(pieces []string) string {
	vocab := map[string]int{}
	for i, p := range pieces {
		vocab[p] = i
	}
	text, _ := json.Marshal(vocab) // of strings and numbers, which cannot fail
	return `{"added_tokens":[{"id":2,"content":"[CLS]","special":true,"normalized":false},{"id":3,"content":"[SEP]","special":true,"normalized":false}],
		"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
		"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
			"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
			"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},
		"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
		"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":` + string(text) + `}}`
}

// tensorWriter collects tensors of random values.
type tensorWriter struct {
	random  *rand.Rand
	tensors []safetensors.TensorData
}

func (w *tensorWriter) add(name string, scale float64, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(scale * w.random.NormFloat64())
	}
	w.put(name, values, shape)
}

func (w *tensorWriter) put(name string, values []float32, shape []int) {
	data := make([]byte, 2*len(values))
	quant.RoundF16(data, values)
	w.tensors = append(w.tensors, safetensors.TensorData{Name: name, Type: quant.F16, Shape: shape, Data: data})
}

// dense adds a matrix that changes little, and its bias.
func (w *tensorWriter) dense(name string, rows, cols int) {
	w.add(name+".weight", 0.02, rows, cols)
	w.add(name+".bias", 0.01, rows)
}

// norm adds a normalization that changes nothing.
func (w *tensorWriter) norm(name string, dim int) {
	ones := make([]float32, dim)
	for i := range ones {
		ones[i] = 1
	}
	w.put(name+".weight", ones, []int{dim})
	w.put(name+".bias", make([]float32, dim), []int{dim})
}
