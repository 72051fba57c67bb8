package llmrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/llmrun/llmrun/text/constrain"
	"github.com/llmrun/llmrun/text/document"
)

const (
	minPartTokens = 64
	// maxPartTokens is the most tokens of a part that the engine chooses: models lose sight of more, and what a kill
	// costs stays small.
	maxPartTokens = 12288
	// maxSummaryWords limits SummarizeOptions.Words.
	maxSummaryWords = 20000
	// leastSummary and mostSummary are the limits of the length that the engine chooses for the whole, in tokens.
	leastSummary, mostSummary = 400, 2000
	// mostFields is the most tokens of the fields of a part.
	mostFields = 1024
	// tokensPerWord is how many tokens a word of a summary may take; languages differ.
	tokensPerWord = 2
	// bytesPerToken limits the bytes of a part: text of more bytes in a token is no prose.
	bytesPerToken = 8
	// answerCost is what an answered token costs, in tokens that are read.
	answerCost = 8
)

// A summarizer makes a summary. It knows no model: answer does.
type summarizer struct {
	document *Document
	options  *SummarizeOptions
	count    func(text string) (int, error)
	// answer computes a step. It calls report while it reads and answers.
	answer func(ctx context.Context, step *SummaryStep, report func(read, answered int) error) (SummaryAnswer, error)
	// load, if set, finds answers, and missing gets the steps that have none in place of answer.
	load     func(key string) (SummaryAnswer, bool, error)
	missing  func(SummaryStep) error
	reserve  func(bytes int64) error
	jobs     *jobStore // nil: nothing is saved
	identity string    // of everything about the model that changes answers
	model    string    // for display
	room     int       // tokens of a text and its summary

	job     *openJob // nil: nothing is saved
	prompts prompts
	sizes   summarySizes
	summary Summary
	parts   []document.Part
	tokens  int // of the document
	gaps    int // steps that missing got
	done    int64
	total   int64
}

// summarySizes are the lengths of a summary's texts, in tokens.
type summarySizes struct {
	Part   int `json:"part"`   // of the document
	Answer int `json:"answer"` // the summary of a part, and of a group
	Whole  int `json:"whole"`  // the result
}

// run makes the summary.
func (s *summarizer) run(ctx context.Context) (summary *Summary, err error) {
	s.prompts = newPrompts(s.options)
	if err := s.choosePart(); err != nil {
		return nil, err
	}
	if s.jobs != nil {
		if s.job, err = s.jobs.begin(s); err != nil {
			return nil, err
		}
		defer func() { err = s.job.end(err) }()
		s.sizes.Part = s.job.keptPart(s.sizes.Part)
		s.summary.Job = s.job.id
	}
	if err := s.split(ctx); err != nil {
		return nil, err
	}
	s.chooseAnswers()
	if err := s.reserve(int64(s.sizes.Part*bytesPerToken)*4 + int64(len(s.parts))*int64(s.sizes.Answer*bytesPerToken)); err != nil {
		return nil, err
	}
	if err := s.job.start(s); err != nil {
		return nil, err
	}
	texts, err := s.summarizeParts(ctx)
	if err != nil {
		return nil, err
	}
	if s.options.Schema != "" {
		s.summary.Text, err = constrain.Compiler{Reserve: s.reserve}.Merge([]byte(s.options.Schema), texts)
	} else {
		s.summary.Text, err = s.merge(ctx, texts)
	}
	if err != nil {
		return nil, err
	}
	return &s.summary, s.job.finish(s)
}

// choosePart chooses the length of parts. The steps are large, so that it rarely depends on the memory that is free.
func (s *summarizer) choosePart() error {
	if s.sizes.Part = s.options.PartTokens; s.sizes.Part > 0 {
		if most := s.room * 2 / 3; s.sizes.Part > most {
			return fmt.Errorf("%w: PartTokens is %d; the context has room for %d beside the prompt and the summary", ErrOptions, s.sizes.Part, most)
		}
		return nil
	}
	for tokens := maxPartTokens; tokens >= minPartTokens; tokens = nextSmaller(tokens) {
		if tokens+tokens/2 <= s.room {
			s.sizes.Part = tokens
			return nil
		}
	}
	return fmt.Errorf("%w: a summary needs room for at least %d tokens beside its prompt, and the context has %d; raise --ctx or --ram", ErrContextFull, minPartTokens*3/2, max(0, s.room))
}

// nextSmaller returns the next length below one of 2^n or 3*2^n.
func nextSmaller(tokens int) int {
	if tokens&(tokens-1) == 0 {
		return tokens * 3 / 4
	}
	return tokens / 3 * 2
}

// split divides the document.
func (s *summarizer) split(ctx context.Context) error {
	limits := document.Limits{Tokens: s.sizes.Part, Bytes: s.sizes.Part * bytesPerToken}
	for part, err := range document.Split(s.document.Text, s.document.Size, limits, s.count) {
		if err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		text, err := s.text(part.Start, part.End)
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) != "" {
			s.parts, s.tokens = append(s.parts, part), s.tokens+part.Tokens
		}
	}
	if len(s.parts) == 0 {
		if s.document.Size == 0 {
			return fmt.Errorf("%w: %s has no text: it is empty", ErrOptions, s.name())
		}
		return fmt.Errorf("%w: %s has no text, only space; if it is pictures of pages, tesseract makes text of them", ErrOptions, s.name())
	}
	return nil
}

func (s *summarizer) name() string {
	if s.document.Name == "" || s.document.Name == "-" {
		return "the document"
	}
	return s.document.Name
}

// text returns a piece of the document.
func (s *summarizer) text(start, end int64) (string, error) {
	b := make([]byte, end-start)
	if _, err := s.document.Text.ReadAt(b, start); err != nil && err != io.EOF {
		return "", fmt.Errorf("%s: %w", s.name(), err)
	}
	return string(b), nil
}

// chooseAnswers chooses the lengths of summaries. That of a part depends on the length of parts alone, so that it stays
// the same when the document grows.
func (s *summarizer) chooseAnswers() {
	if s.options.Schema != "" {
		s.sizes.Answer = min(mostFields, s.sizes.Part/2)
		s.sizes.Whole = s.sizes.Answer
		return
	}
	s.sizes.Answer = min(max(s.sizes.Part/8, 96), 512, s.sizes.Part/2)
	if s.sizes.Whole = s.options.Words * tokensPerWord; s.sizes.Whole == 0 {
		s.sizes.Whole = leastSummary
		for s.sizes.Whole < s.tokens/20 && s.sizes.Whole < mostSummary {
			s.sizes.Whole += leastSummary
		}
	}
	s.sizes.Whole = min(s.sizes.Whole, s.sizes.Part/2)
}

// summarizeParts returns the summary of each part, or with SummarizeRefine that of all of them.
func (s *summarizer) summarizeParts(ctx context.Context) ([]string, error) {
	refines := s.options.Method == SummarizeRefine
	tokens := s.sizes.Answer
	if len(s.parts) == 1 || refines {
		tokens = s.sizes.Whole
	}
	s.estimate(tokens)
	var texts []string
	before := ""
	for i, part := range s.parts {
		text, err := s.text(part.Start, part.End)
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(text)
		prompt := s.prompts.part(text, tokens/tokensPerWord)
		switch {
		case s.options.Schema != "":
			prompt = s.prompts.fields(text)
		case refines && i > 0:
			prompt = s.prompts.refine(before, text, tokens/tokensPerWord)
		}
		got, reused, err := s.step(ctx, SummaryStep{Part: i + 1, Parts: len(s.parts), Prompt: prompt, Read: part.Tokens, Tokens: tokens})
		if err != nil {
			return nil, err
		}
		if s.gaps > 0 {
			if refines {
				break
			}
			continue
		}
		count(reused, &s.summary.Computed, &s.summary.Reused)
		before = got
		s.summary.Parts = append(s.summary.Parts, SummaryPart{Start: part.Start, End: part.End, Heading: part.Heading, Summary: got})
		if s.options.Cite {
			got = cite(got, i+1)
		}
		texts = append(texts, got)
	}
	if s.gaps > 0 {
		return nil, ErrAnswersMissing
	}
	if refines {
		texts = texts[len(texts)-1:]
	}
	return texts, nil
}

func count(reused bool, computed, saved *int) {
	if reused {
		*saved++
	} else {
		*computed++
	}
}

// merge merges summaries until they are short enough together.
func (s *summarizer) merge(ctx context.Context, texts []string) (string, error) {
	for level := 1; ; level++ {
		joined := strings.Join(texts, "\n\n")
		n, err := s.count(joined)
		if err != nil {
			return "", err
		}
		if len(texts) == 1 || n <= s.sizes.Whole {
			return joined, nil
		}
		groups, err := s.group(texts)
		if err != nil {
			return "", err
		}
		if texts, err = s.mergeGroups(ctx, level, groups); err != nil {
			return "", err
		}
	}
}

// group returns groups of at least two summaries, each as long as a part.
func (s *summarizer) group(texts []string) (groups [][]string, err error) {
	tokens := 0
	for _, text := range texts {
		n, err := s.count(text)
		if err != nil {
			return nil, err
		}
		n += 2 // the empty line
		last := len(groups) - 1
		if last < 0 || tokens+n > s.sizes.Part && len(groups[last]) > 1 {
			groups, tokens, last = append(groups, nil), 0, last+1
		}
		groups[last], tokens = append(groups[last], text), tokens+n
	}
	return groups, nil
}

// mergeGroups returns the summary of each group.
func (s *summarizer) mergeGroups(ctx context.Context, level int, groups [][]string) (merged []string, err error) {
	tokens := s.sizes.Answer
	if len(groups) == 1 {
		tokens = s.sizes.Whole
	}
	for i, group := range groups {
		if len(group) == 1 {
			merged = append(merged, group[0])
			continue
		}
		text := strings.Join(group, "\n\n")
		n, err := s.count(text)
		if err != nil {
			return nil, err
		}
		got, reused, err := s.step(ctx, SummaryStep{Level: level, Part: i + 1, Parts: len(groups), Prompt: s.prompts.merge(text, tokens/tokensPerWord), Read: n, Tokens: tokens})
		if err != nil {
			return nil, err
		}
		if s.gaps > 0 {
			continue
		}
		count(reused, &s.summary.ComputedMerges, &s.summary.ReusedMerges)
		if s.options.Cite {
			got = citeLike(got, text)
		}
		merged = append(merged, got)
	}
	if s.gaps > 0 {
		return nil, ErrAnswersMissing
	}
	return merged, nil
}

// step answers one prompt, or returns the answer that an earlier run has saved.
func (s *summarizer) step(ctx context.Context, step SummaryStep) (text string, reused bool, err error) {
	step.Key = summaryKey(s.identity, step.Prompt, step.Tokens)
	answer, reused, err := s.loaded(step.Key)
	if err != nil {
		return "", false, err
	}
	if !reused {
		if s.missing != nil {
			s.gaps++
			return "", false, s.missing(step)
		}
		if answer, err = s.compute(ctx, &step); err != nil {
			return "", false, err
		}
	}
	if reused {
		s.total -= step.work()
	}
	if answer.Repeats {
		s.summary.Repeats++
	}
	return answer.Text, reused, nil
}

// loaded returns the answer of an earlier run.
func (s *summarizer) loaded(key string) (SummaryAnswer, bool, error) {
	switch {
	case s.load != nil:
		return s.load(key)
	case s.options.Again:
		return SummaryAnswer{}, false, nil
	}
	return s.job.load(key)
}

// compute computes and saves an answer.
func (s *summarizer) compute(ctx context.Context, step *SummaryStep) (SummaryAnswer, error) {
	p := SummaryProgress{Level: step.Level, Part: step.Part, Parts: step.Parts}
	report := func(read, answered int) error {
		if err := s.job.cancelled(); err != nil {
			return err
		}
		p.Done = s.done + int64(min(read, step.Read)) + int64(answerCost*answered)
		p.Total = max(s.total, p.Done)
		return s.options.report(ctx, p)
	}
	if err := report(0, 0); err != nil {
		return SummaryAnswer{}, err
	}
	answer, err := s.answer(ctx, step, report)
	if err != nil {
		return SummaryAnswer{}, err
	}
	s.done += step.work()
	return answer, s.job.save(step.Key, answer)
}

// summaryKey identifies an answer: everything that the model computes follows from it.
func summaryKey(identity, prompt string, tokens int) string {
	h := sha256.New()
	fmt.Fprintf(h, "summary 1\x00%s\x00%d\x00%s", identity, tokens, prompt) // never fails
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// estimate estimates the work of all steps.
func (s *summarizer) estimate(tokens int) {
	for _, part := range s.parts {
		s.total += int64(part.Tokens + answerCost*tokens)
	}
	if s.options.Method == SummarizeRefine || s.options.Schema != "" {
		return
	}
	// Answers are about half as long as they may be.
	for n, left := len(s.parts), len(s.parts)*s.sizes.Answer/2; n > 1 && left > s.sizes.Whole; {
		n = max(1, left/s.sizes.Part)
		s.total += int64(left + answerCost*n*s.sizes.Answer)
		left = n * s.sizes.Answer / 2
	}
}

// lastWhole cuts an answer that the limit of tokens has cut off behind its last whole sentence or line.
func lastWhole(text string) string {
	for at := len(text) - 1; at > len(text)/2; at-- {
		switch {
		case text[at] == '\n':
			return strings.TrimSpace(text[:at])
		case (text[at] == '.' || text[at] == '!' || text[at] == '?') && (at+1 == len(text) || text[at+1] == ' ' || text[at+1] == '\n'):
			return text[:at+1]
		}
	}
	return text
}
