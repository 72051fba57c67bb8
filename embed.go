package llmrun

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/quant"
)

// EmbedKind is what a text is for. Some models were trained with a prefix for each purpose, which their files name.
type EmbedKind string

// The kinds of texts.
const (
	EmbedText     EmbedKind = ""         // no purpose: the files' default prefix, usually none
	EmbedQuery    EmbedKind = "query"    // a question or a search
	EmbedDocument EmbedKind = "document" // a text that is searched
)

// EmbedOptions configure [Engine.Embed]. The zero value is the model's own pipeline.
type EmbedOptions struct {
	Kind EmbedKind
	// Prefix is put before each text instead of the one of Kind; nil leaves the choice to Kind.
	Prefix *string
	// Dimensions is the length of the vectors, for models that were trained so that the first elements are a description
	// by themselves (Matryoshka); 0 means all. The vectors are normalized again.
	Dimensions int
	// Pooling replaces the model's pipeline by the hidden states alone: "mean" of all tokens, of the "cls" (first) or "last"
	// token, or "none", which gives a vector for each token, text after text. "" is the model's own pipeline: its pooling
	// and the dense layers behind it. Models that name none give the mean if their tokens attend to later ones, and
	// otherwise the last token's state.
	Pooling string
	// Raw leaves out the normalization to vectors of length 1.
	Raw bool
	// Whole refuses texts that are longer than [Engine.MaxTextTokens], instead of cutting them.
	Whole bool
	// Stats, if set, receives counts.
	Stats *EmbedStats
	// Room, if set, is the engine's room that counts the vectors, as long as the program needs them. It grows by them. Without one the
	// budget counts them until the call returns.
	Room *Room
}

// EmbedStats counts what an Embed or a Rank has read.
type EmbedStats struct {
	Tokens    int // after truncation, with prefixes and special tokens
	Truncated int // texts that were longer than the model reads
}

// Embed returns a vector for each text, in which similar texts have similar directions. A text longer than
// [Engine.MaxTextTokens] is cut, as sentence-transformers does, which EmbedStats counts. Texts share passes over the weights; a
// vector has the same bits alone and among others.
func (e *Engine) Embed(ctx context.Context, texts []string, o EmbedOptions) ([][]float32, error) {
	c, err := e.newEmbedding(&o)
	if err != nil {
		return nil, err
	}
	prefix := c.prefix(&o)
	return c.run(ctx, len(texts), func(i int) ([]int32, error) { return c.tokens(prefix, texts[i]) })
}

// EmbedIDs is Embed of texts as token ids, to which it adds no tokens and no prefix.
func (e *Engine) EmbedIDs(ctx context.Context, texts [][]int32, o EmbedOptions) ([][]float32, error) {
	c, err := e.newEmbedding(&o)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, len(texts), func(i int) ([]int32, error) { return texts[i], nil })
}

// EmbedIdentity identifies what the vectors of [Engine.Embed] follow from: the content of the model's files, and the options
// that change vectors. Programs that keep vectors compare it before they mix them with new ones. It reads the model's files, unless
// their hashes are in the cache directory.
func (e *Engine) EmbedIdentity(ctx context.Context, o EmbedOptions) (_ string, err error) {
	defer ended.Say(ctx, &err)
	c, err := e.newEmbedding(&o)
	if err != nil {
		return "", err
	}
	model, err := e.identify(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: its content cannot be identified: %w", e.info.Path, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %q %q %d %t", model, e.info.KV, o.Pooling, c.prefix(&o), o.Dimensions, o.Raw))
	return hex.EncodeToString(sum[:]), nil
}

// identifier returns a function that identifies the model and the options that change results. A device computes slightly
// different ones, which can be compared.
func (o *Options) identifier(f *modelfile.Files, perTensor *exec.W8A8) func(ctx context.Context) (string, error) {
	options, content := *o, f.IdentityLater()
	options.Device = DeviceOptions{}
	return func(ctx context.Context) (string, error) {
		model, err := content(ctx)
		if err != nil {
			return "", err
		}
		return options.kvIdentity(ctx, string(model[:]), perTensor)
	}
}

// embedding is one call of Embed.
type embedding struct {
	e       *Engine
	options *EmbedOptions
	pooling modelfile.Pooling
	dense   []modelfile.Dense
	stats   EmbedStats
	skipped int // tokens of a prefix that take no part in the pooling
	vectors [][]float32
}

// newEmbedding checks options.
func (e *Engine) newEmbedding(o *EmbedOptions) (*embedding, error) {
	c := &embedding{e: e, options: o, pooling: modelfile.Pooling(o.Pooling)}
	if o.Pooling == "" {
		d, err := e.describer.description()
		if err != nil {
			return nil, err
		}
		c.pooling, c.dense = d.Pooling, d.Dense
		if c.pooling == modelfile.PoolUnnamed {
			c.pooling = modelfile.PoolLast
			if e.model.Spec.Encoder.Bidirectional {
				c.pooling = modelfile.PoolMean
			}
		}
	} else if !slices.Contains([]string{"mean", "cls", "last", "none"}, o.Pooling) {
		return nil, fmt.Errorf("%w: Pooling is %q; it must be mean, cls, last or none", ErrOptions, o.Pooling)
	}
	if !slices.Contains([]EmbedKind{EmbedText, EmbedQuery, EmbedDocument}, o.Kind) {
		return nil, fmt.Errorf("%w: Kind is %q; it must be %q or %q", ErrOptions, o.Kind, EmbedQuery, EmbedDocument)
	}
	if width := c.width(); o.Dimensions < 0 || o.Dimensions > width {
		return nil, fmt.Errorf("%w: Dimensions is %d; the vectors of %s have %d elements, so it must be between 1 and %d", ErrOptions, o.Dimensions, e.info.Path, width, width)
	}
	return c, nil
}

// width returns the length of the vectors before Dimensions.
func (c *embedding) width() int {
	if n := len(c.dense); n > 0 {
		return c.dense[n-1].Rows
	}
	return c.e.model.Spec.Dim
}

// Tasks whose prompts are meant for queries and documents, in the order in which sentence-transformers and authors of models
// prefer them.
var (
	queryTasks    = []string{"query", "search_query", "retrieval_query", "Retrieval-query", "retrieval.query", "web_search_query"}
	documentTasks = []string{"document", "passage", "corpus", "search_document", "retrieval_document", "Retrieval-document", "retrieval.passage"}
)

// prefix returns the text before each text.
func (c *embedding) prefix(o *EmbedOptions) string {
	d, _ := c.e.describer.description()
	if o.Prefix != nil || d == nil {
		if o.Prefix == nil {
			return ""
		}
		return *o.Prefix
	}
	tasks := map[EmbedKind][]string{EmbedQuery: queryTasks, EmbedDocument: documentTasks}[o.Kind]
	for _, task := range tasks {
		if text, ok := d.Prompts[task]; ok {
			return text
		}
	}
	return d.Prompt
}

// tokens returns the ids of a text behind a prefix, cut to what the model reads.
func (c *embedding) tokens(prefix, text string) ([]int32, error) {
	d, _ := c.e.describer.description()
	if d != nil && d.ExcludePrompt && prefix != "" && c.skipped == 0 {
		ids, err := c.e.encodePlain(prefix)
		if err != nil {
			return nil, err
		}
		before, _ := c.e.tok.t.Affixes()
		c.skipped = len(before) + len(ids)
	}
	text = prefix + text
	if d != nil && d.Lower {
		text = strings.ToLower(text)
	}
	ids, err := c.e.encodePlain(text)
	if err != nil {
		return nil, err
	}
	before, behind := c.e.tok.t.Affixes()
	if all := len(before) + len(ids) + len(behind); c.options.Whole && all > c.e.describer.limit {
		return nil, &ContextFullError{Tokens: all, Limit: c.e.describer.limit, Prompt: true}
	}
	return c.e.describer.cut(before, ids, behind, &c.stats), nil
}

// run reads n texts and returns their vectors.
func (c *embedding) run(ctx context.Context, n int, tokens func(i int) ([]int32, error)) ([][]float32, error) {
	c.vectors = make([][]float32, 0, n)
	if c.options.Room == nil {
		c.options.Room = c.e.NewRoom(vectorsUse)
		defer c.options.Room.Close()
	}
	r, err := c.e.beginReading(ctx)
	if err != nil {
		return nil, err
	}
	defer r.end()
	for i := range n {
		ids, err := tokens(i)
		if err == nil {
			err = c.e.describer.checkIDs(ids, i)
		}
		if err != nil {
			return nil, err
		}
		c.stats.Tokens += len(ids)
		if err := c.hold(len(ids)); err != nil {
			return nil, err
		}
		p := &pooled{c: c, tokens: len(ids), skipped: min(c.skipped, len(ids)-1)}
		if err := r.add(ids, exec.ExtendOptions{Hidden: true, Want: p.wants, Each: p.take}, p.finish); err != nil {
			return nil, err
		}
	}
	if err := r.flush(); err != nil {
		return nil, err
	}
	if c.options.Stats != nil {
		*c.options.Stats = c.stats
	}
	return c.vectors, nil
}

// vectorsUse is what the memory of vectors is for, in errors.
const vectorsUse = "a list of vectors"

// hold makes room for the vectors of a text of some tokens, before a pass computes them.
func (c *embedding) hold(tokens int) error {
	const perVector, perElement = 32, 4
	n := int64(1)
	if c.pooling == modelfile.PoolNone {
		n = int64(tokens)
	}
	return c.options.Room.Add(n * (perVector + perElement*int64(max(c.e.model.Spec.Dim, c.width()))))
}

// pooled is the vector of a text while its tokens are read.
type pooled struct {
	c       *embedding
	tokens  int
	skipped int
	vectors [][]float32
	sum     []float64
}

// wants reports whether the state of a token takes part.
func (p *pooled) wants(pos int) bool {
	switch p.c.pooling {
	case modelfile.PoolCLS:
		return pos == 0
	case modelfile.PoolLast:
		return pos == p.tokens-1
	}
	return pos >= p.skipped
}

// take adds the state of a token.
func (p *pooled) take(pos int, x []float32) error {
	weight := 1.0
	switch p.c.pooling {
	case modelfile.PoolNone, modelfile.PoolCLS, modelfile.PoolLast:
		p.vectors = append(p.vectors, slices.Clone(x))
		return nil
	case modelfile.PoolMax:
		if p.vectors == nil {
			p.vectors = [][]float32{slices.Clone(x)}
		}
		for i, v := range x {
			p.vectors[0][i] = max(p.vectors[0][i], v)
		}
		return nil
	case modelfile.PoolWeighted:
		weight = float64(pos + 1)
	}
	if p.sum == nil {
		p.sum = make([]float64, len(x))
	}
	for i, v := range x {
		p.sum[i] += weight * float64(v)
	}
	return nil
}

// finish completes the vectors of the text.
func (p *pooled) finish() error {
	if p.sum != nil {
		n := float64(p.tokens - p.skipped)
		switch p.c.pooling {
		case modelfile.PoolRootMean:
			n = math.Sqrt(n)
		case modelfile.PoolWeighted:
			n = float64(p.tokens*(p.tokens+1)-p.skipped*(p.skipped+1)) / 2
		}
		mean := make([]float32, len(p.sum))
		for i, v := range p.sum {
			mean[i] = float32(v / n)
		}
		p.vectors = [][]float32{mean}
	}
	for _, x := range p.vectors {
		for i := range p.c.dense {
			x = p.c.dense[i].Apply(x)
		}
		x = x[:cmp.Or(p.c.options.Dimensions, len(x))]
		if !p.c.options.Raw {
			normalize(x)
		}
		p.c.vectors = append(p.c.vectors, x)
	}
	return nil
}

// normalize scales a vector to length 1; one of zeros stays.
func normalize(x []float32) {
	if squares := float64(quant.SumSquares(x)); squares > 0 {
		quant.Scale(x, float32(1/math.Sqrt(squares)))
	}
}
