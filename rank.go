package llmrun

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/text/token"
)

// Rank returns how well each text answers a query; greater is better. The numbers are the outputs of the model's head as
// they are: of a head with two classes, how much more the good one gets. A model that generates texts and has no head judges
// with yes or no, and the number is how much greater the logit of yes is. Scores of different models are not comparable.
//
// A text that is too long beside the query is cut.
func (e *Engine) Rank(ctx context.Context, query string, texts []string) ([]float32, error) {
	return e.RankCounted(ctx, query, texts, nil)
}

// RankCounted is Rank, and counts what it reads if stats is not nil.
func (e *Engine) RankCounted(ctx context.Context, query string, texts []string, stats *EmbedStats) ([]float32, error) {
	c, err := e.newRanking()
	if err != nil {
		return nil, err
	}
	scores, err := c.run(ctx, len(texts), func(i int) ([]int32, func(int) int, error) { return c.join(query, texts[i]) })
	if err == nil && stats != nil {
		*stats = c.stats
	}
	return scores, err
}

// RankIDs returns the score of each text of token ids, in which query and text are joined as the model expects them.
func (e *Engine) RankIDs(ctx context.Context, texts [][]int32) ([]float32, error) {
	c, err := e.newRanking()
	if err != nil {
		return nil, err
	}
	return c.run(ctx, len(texts), func(i int) ([]int32, func(int) int, error) { return texts[i], nil, nil })
}

// ranking is one call of Rank.
type ranking struct {
	e       *Engine
	head    *modelfile.Head // nil: the logits of yes and no
	yes, no int32
	stats   EmbedStats
	scores  []float32
}

// newRanking finds the head, or the tokens with which a model judges.
func (e *Engine) newRanking() (*ranking, error) {
	d, err := e.describer.description()
	if err != nil {
		return nil, err
	}
	c := &ranking{e: e, head: d.Head}
	if c.head != nil {
		return c, nil
	}
	if e.tok != nil && !e.model.Spec.Headless {
		yes, hasYes := e.tok.t.ID("yes")
		no, hasNo := e.tok.t.ID("no")
		if c.yes, c.no = yes, no; hasYes && hasNo && max(yes, no) < int32(e.model.Spec.Vocab) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%w: %s has no head that scores texts (known: %s), and no tokens yes and no to judge with", ErrOptions, e.info.Path, modelfile.KnownHeads())
}

// judgePrompt asks a model for yes or no, in the words with which the rerankers of Qwen3 are trained.
const judgePrompt = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
	"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages " +
	"that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

// join returns the ids of a query and a text, and the types of the tokens.
func (c *ranking) join(query, text string) ([]int32, func(int) int, error) {
	e := c.e
	if e.tok == nil {
		return nil, nil, fmt.Errorf("%w: %s accepts only token ids; use RankIDs", ErrNoTokenizer, e.info.Path)
	}
	template := e.describer.template
	switch {
	case e.model.Spec.Encoder.Bidirectional:
		return c.joinPair(query, text)
	case template == "" && c.head != nil && !c.head.Classes():
		return c.joinMessages(query, text)
	case template == "":
		template = judgePrompt
	}
	ids, err := c.cutText(text, func(text string) ([]int32, error) { return e.fill(template, query, text) })
	return ids, nil, err
}

// joinPair joins two texts with the special tokens of an encoder.
func (c *ranking) joinPair(query, text string) ([]int32, func(int) int, error) {
	first, err := c.e.encodePlain(query)
	if err != nil {
		return nil, nil, err
	}
	second, err := c.e.encodePlain(text)
	if err != nil {
		return nil, nil, err
	}
	before, _ := c.e.tok.t.Affixes()
	between, behind := c.e.tok.t.Pair()
	head := slices.Concat(before, first, between)
	if most := c.e.describer.limit - len(behind) - 1; len(head) > most {
		return nil, nil, fmt.Errorf("the query has %d tokens, and the model reads %d of query and text together: %w", len(first), c.e.describer.limit,
			&ContextFullError{Tokens: len(head), Limit: max(0, most), Prompt: true})
	}
	from, kind := len(head), c.e.tok.t.PairType()
	return c.e.describer.cut(head, second, behind, &c.stats), func(pos int) int {
		if pos >= from {
			return kind
		}
		return 0
	}, nil
}

// joinMessages renders a text as the answer to the query, as [Engine.Reward] does.
func (c *ranking) joinMessages(query, text string) ([]int32, func(int) int, error) {
	r := &rewardModel{tok: c.e.tok.t, chat: c.e.chat}
	ids, err := c.cutText(text, func(text string) ([]int32, error) {
		room, err := c.e.reservePrompt(query, text)
		defer room.release()
		if err != nil {
			return nil, err
		}
		return r.encode(Prompt{Messages: []Message{{Role: "user", Content: query}}}, text, room)
	})
	return ids, nil, err
}

// fill encodes a template. Query and text are plain text, whatever they spell.
func (e *Engine) fill(template, query, text string) ([]int32, error) {
	var all strings.Builder
	var plain []token.Span
	for rest := template; rest != ""; {
		at := strings.IndexByte(rest, '{')
		value, name := "", ""
		switch {
		case at < 0:
			all.WriteString(rest)
			rest = ""
			continue
		case strings.HasPrefix(rest[at:], "{query}"):
			value, name = query, "{query}"
		case strings.HasPrefix(rest[at:], "{document}"):
			value, name = text, "{document}"
		default:
			value, name = "{", "{"
		}
		all.WriteString(rest[:at])
		from := all.Len()
		all.WriteString(value)
		if all.Len() > from {
			plain = append(plain, token.Span{Begin: from, End: all.Len()})
		}
		rest = rest[at+len(name):]
	}
	room, err := e.reservePrompt(all.String())
	defer room.release()
	if err != nil {
		return nil, err
	}
	return e.tok.t.Encode(all.String(), room.encodeOptions(token.EncodeOptions{AllowSpecial: true, AddSpecial: true, OpenEnd: true, Plain: plain}))
}

// cutText encodes a text, and less of it if the result is too long.
func (c *ranking) cutText(text string, encode func(text string) ([]int32, error)) ([]int32, error) {
	ids, err := encode(text)
	limit := c.e.describer.limit
	if err != nil || len(ids) <= limit {
		return ids, err
	}
	own, err := c.e.encodePlain(text)
	if err != nil {
		return nil, err
	}
	c.stats.Truncated++
	for keep := len(own) - (len(ids) - limit); keep >= 0; keep -= max(1, len(ids)-limit) {
		if text, err = c.e.tok.t.Decode(own[:keep]); err != nil {
			return nil, err
		}
		if ids, err = encode(text); err != nil || len(ids) <= limit {
			return ids, err
		}
	}
	return nil, fmt.Errorf("the query is too long: %w", &ContextFullError{Tokens: len(ids), Limit: limit, Prompt: true})
}

// run reads n sequences and returns their scores.
func (c *ranking) run(ctx context.Context, n int, tokens func(i int) ([]int32, func(int) int, error)) ([]float32, error) {
	c.scores = make([]float32, 0, n)
	r, err := c.e.beginReading(ctx)
	if err != nil {
		return nil, err
	}
	defer r.end()
	for i := range n {
		ids, types, err := tokens(i)
		if err == nil {
			err = c.e.describer.checkIDs(ids, i)
		}
		if err != nil {
			return nil, err
		}
		c.stats.Tokens += len(ids)
		s := &scored{c: c, index: i, tokens: len(ids)}
		if err := r.add(ids, exec.ExtendOptions{Hidden: c.head != nil, Types: types, Want: s.wants, Each: s.take}, s.finish); err != nil {
			return nil, err
		}
	}
	if err := r.flush(); err != nil {
		return nil, err
	}
	return c.scores, nil
}

// scored is the score of a text while its tokens are read.
type scored struct {
	c      *ranking
	index  int
	tokens int
	state  []float32 // what the head scores
	raw    float64
}

func (s *scored) wants(pos int) bool {
	switch {
	case s.c.head == nil || s.c.head.At == modelfile.PoolLast:
		return pos == s.tokens-1
	case s.c.head.At == modelfile.PoolCLS:
		return pos == 0
	}
	return true
}

func (s *scored) take(_ int, x []float32) error {
	switch {
	case s.c.head == nil:
		s.raw = float64(x[s.c.yes]) - float64(x[s.c.no])
	case s.state == nil:
		s.state = slices.Clone(x)
	default:
		for i, v := range x {
			s.state[i] += v
		}
	}
	return nil
}

func (s *scored) finish() error {
	if s.c.head != nil {
		if s.c.head.At == modelfile.PoolMean {
			for i := range s.state {
				s.state[i] /= float32(s.tokens)
			}
		}
		s.raw = s.c.head.Raw(s.state)
	}
	if math.IsNaN(s.raw) {
		return fmt.Errorf("the score of text %d is not a number; the weights of %s may be damaged", s.index, s.c.e.info.Path)
	}
	s.c.scores = append(s.c.scores, float32(s.raw))
	return nil
}
