package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/llmrun/llmrun"
)

// routeEmbeddings adds the endpoints that describe texts instead of generating some.
func (s *Server) routeEmbeddings() {
	s.mux.HandleFunc("POST /v1/embeddings", s.handle(openAI{}, s.readEmbeddings))
	s.mux.HandleFunc("POST /v1/rerank", s.handle(openAI{}, s.readRerank))
	s.mux.HandleFunc("POST /api/embed", s.handle(ollama{}, s.readOllamaEmbed))
	s.mux.HandleFunc("POST /api/embeddings", s.handle(ollama{}, s.readOllamaEmbeddings))
}

// maxEmbedded is the most texts of a request.
const maxEmbedded = 2048

// described is what a request wants vectors of: texts, or token ids.
type described struct {
	texts   []string
	ids     [][]int32
	options llmrun.EmbedOptions
	// truncates: texts that are too long are cut, otherwise refused.
	truncates bool
	// cutsDimensions: more dimensions than the model's vectors have mean all, otherwise they are refused.
	cutsDimensions bool
}

// readDescribed reads a text, token ids, or a list of either; not of both.
func readDescribed(o *object, name string) (d described) {
	for _, t := range o.textsOrTokens(name, maxEmbedded) {
		if t.ids != nil {
			d.ids = append(d.ids, t.ids)
		} else {
			d.texts = append(d.texts, t.text)
		}
	}
	if len(d.ids) > 0 && len(d.texts) > 0 {
		o.fail(name, textsOrTokensProblem(maxEmbedded))
	}
	return d
}

// vectors computes the vectors of a request, which are in the engine's budget until the request ends.
func (d *described) vectors(ctx context.Context, u *use) (vectors [][]float32, stats llmrun.EmbedStats, err error) {
	d.options.Stats, d.options.Whole, d.options.Room = &stats, !d.truncates, u.newRoom("a list of vectors")
	if d.cutsDimensions && d.options.Dimensions >= u.engine.VectorLength() {
		d.options.Dimensions = 0
	}
	err = u.whileStarved(ctx, func() (err error) {
		_ = d.options.Room.Resize(0) // what a failed attempt had; less is never refused
		if d.ids != nil {
			vectors, err = u.engine.EmbedIDs(ctx, d.ids, d.options)
		} else {
			vectors, err = u.engine.Embed(ctx, d.texts, d.options)
		}
		return err
	})
	recordOf(ctx).count(llmrun.Stats{PromptTokens: stats.Tokens})
	return vectors, stats, err
}

// embeddingUsage counts tokens.
type embeddingUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

// embeddingItem is a vector: numbers, or their bytes in base64.
type embeddingItem struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

// readEmbeddings reads a request of OpenAI's API.
func (s *Server) readEmbeddings(o *object) *job {
	d := readDescribed(o, "input")
	if n := o.whole("dimensions", 1, math.MaxInt32); n != nil {
		d.options.Dimensions = int(*n)
	}
	encoding := cmp.Or(o.text("encoding_format"), "float")
	if encoding != "float" && encoding != "base64" {
		o.fail("encoding_format", "must be float or base64")
	}
	d.options.Kind = readKind(o)
	if slices.Contains(d.texts, "") {
		o.fail("input", "must not have an empty text")
	}
	return &job{model: o.text("model"), plain: true, run: func(ctx context.Context, w http.ResponseWriter, u *use) error {
		vectors, stats, err := d.vectors(ctx, u)
		if err != nil {
			return err
		}
		writeJSONList(w, "data", len(vectors), func(i int) any {
			item := embeddingItem{"embedding", i, vectors[i]}
			if encoding == "base64" {
				item.Embedding = base64Floats(vectors[i])
			}
			return item
		}, struct {
			Object string         `json:"object"`
			Model  string         `json:"model"`
			Usage  embeddingUsage `json:"usage"`
		}{"list", u.name, embeddingUsage{stats.Tokens, stats.Tokens}})
		return nil
	}}
}

// readKind reads what the texts are for, which other servers of this API accept too.
func readKind(o *object) llmrun.EmbedKind {
	switch kind := o.text("input_type"); kind {
	case "":
	case "query", "search_query":
		return llmrun.EmbedQuery
	case "document", "passage", "search_document":
		return llmrun.EmbedDocument
	default:
		o.fail("input_type", "must be query or document")
	}
	return llmrun.EmbedText
}

// base64Floats returns the bytes of a vector, the low ones first, as text.
func base64Floats(v []float32) string {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(data)
}

// rerankResult is the score of a document.
type rerankResult struct {
	Index    int              `json:"index"`
	Score    float64          `json:"relevance_score"`
	Document *rerankedContent `json:"document,omitempty"`
}

type rerankedContent struct {
	Text string `json:"text"`
}

// readRerank reads a request in the form that rerankers have in common. Scores are between 0 and 1.
func (s *Server) readRerank(o *object) *job {
	query := o.text("query")
	o.need("query")
	documents := readDocuments(o)
	top := len(documents)
	if n := o.whole("top_n", 1, math.MaxInt32); n != nil {
		top = min(top, int(*n))
	}
	back := o.boolean("return_documents", false)
	return &job{model: o.text("model"), plain: true, run: func(ctx context.Context, w http.ResponseWriter, u *use) error {
		var stats llmrun.EmbedStats
		var scores []float32
		err := u.whileStarved(ctx, func() (err error) {
			stats = llmrun.EmbedStats{}
			scores, err = u.engine.RankCounted(ctx, query, documents, &stats)
			return err
		})
		recordOf(ctx).count(llmrun.Stats{PromptTokens: stats.Tokens})
		if err != nil {
			return err
		}
		results := make([]rerankResult, len(scores))
		for i, x := range scores {
			results[i] = rerankResult{Index: i, Score: 1 / (1 + math.Exp(-float64(x)))}
			if back {
				results[i].Document = &rerankedContent{documents[i]}
			}
		}
		slices.SortStableFunc(results, func(a, b rerankResult) int { return cmp.Compare(scores[b.Index], scores[a.Index]) })
		writeJSON(w, http.StatusOK, struct {
			Object  string         `json:"object"`
			Model   string         `json:"model"`
			Results []rerankResult `json:"results"`
			Usage   embeddingUsage `json:"usage"`
		}{"list", u.name, results[:top], embeddingUsage{stats.Tokens, stats.Tokens}})
		return nil
	}}
}

// readDocuments reads a list of texts, or of objects with a text.
func readDocuments(o *object) (texts []string) {
	const name = "documents"
	if o.need(name); !o.has(name) {
		return nil
	}
	const problem = "must be a list of at most 2048 texts, or objects with a text"
	v := o.fields[name]
	if v.rest || len(v.items) == 0 || len(v.items) > maxEmbedded {
		o.fail(name, problem)
		return nil
	}
	for i := range v.items {
		item := v.items[i]
		if item.kind == isObject {
			item = item.fields["text"]
		}
		if item.kind != isText {
			o.fail(name, problem)
			return nil
		}
		texts = append(texts, item.text)
	}
	return texts
}

// readOllamaEmbed reads a request of ollama's API. One without texts opens the model.
func (s *Server) readOllamaEmbed(o *object) *job {
	d := described{truncates: o.boolean("truncate", true), cutsDimensions: true}
	if list := o.fields["input"]; list.kind != isNull && !(list.kind == isText && list.text == "") {
		d.texts = o.texts("input")
	}
	if len(d.texts) > maxEmbedded {
		o.fail("input", fmt.Sprintf("must be a string or a list of at most %d strings", maxEmbedded))
	}
	if n := o.whole("dimensions", 0, math.MaxInt32); n != nil {
		d.options.Dimensions = int(*n)
	}
	return &job{model: ollamaName(o), plain: true, keepAlive: readKeepAlive(o), run: func(ctx context.Context, w http.ResponseWriter, u *use) error {
		vectors, tokens := [][]float32{}, 0
		if len(d.texts) > 0 {
			found, stats, err := d.vectors(ctx, u)
			if err != nil {
				return err
			}
			vectors, tokens = found, stats.Tokens
		}
		writeJSONList(w, "embeddings", len(vectors), func(i int) any { return vectors[i] }, struct {
			Model  string        `json:"model"`
			Total  time.Duration `json:"total_duration"`
			Load   time.Duration `json:"load_duration"`
			Tokens int           `json:"prompt_eval_count"`
		}{u.name, time.Since(u.start), u.load, tokens})
		return nil
	}}
}

// readOllamaEmbeddings reads a request of the older endpoint, which has one text, and whose vectors have the length that the model
// gives them. One without a text opens the model.
func (s *Server) readOllamaEmbeddings(o *object) *job {
	d := described{truncates: true}
	d.options.Raw = true
	text := o.text("prompt")
	return &job{model: ollamaName(o), plain: true, keepAlive: readKeepAlive(o), run: func(ctx context.Context, w http.ResponseWriter, u *use) error {
		vector := []float32{}
		if text != "" {
			d.texts = []string{text}
			vectors, _, err := d.vectors(ctx, u)
			if err != nil {
				return err
			}
			vector = vectors[0]
		}
		writeJSON(w, http.StatusOK, struct {
			Embedding []float32 `json:"embedding"`
		}{vector})
		return nil
	}}
}
