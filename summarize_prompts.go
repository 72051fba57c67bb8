package llmrun

import (
	"fmt"
	"strings"
)

// prompts are the prompts of a summary. What is asked for stands behind the text, where small models follow it best;
// in front of it the bundled model repeats itself. What the template puts before a message is prefilled once.
type prompts struct {
	rules  string // what all of them ask for
	schema string // of fields; "": a summary is asked for
}

func newPrompts(o *SummarizeOptions) prompts {
	var b strings.Builder
	b.WriteString("Keep names, dates, numbers, decisions and open questions as they are. Add nothing that the text does not say.")
	if o.Language != "" {
		fmt.Fprintf(&b, " Write in %s.", o.Language)
	} else {
		b.WriteString(" Write in the language of the text.")
	}
	if o.Instructions != "" {
		fmt.Fprintf(&b, "\n\n%s", o.Instructions)
	}
	return prompts{rules: b.String(), schema: o.Schema}
}

// part asks for the summary of a part.
func (p *prompts) part(text string, words int) string {
	return fmt.Sprintf("%s\n\nSummarize the text in at most %d words. %s", text, words, p.rules)
}

// fields asks for the fields of a part.
func (p *prompts) fields(text string) string {
	return fmt.Sprintf("%s\n\nExtract from the text what this JSON Schema describes, as JSON: %s\n%s", text, p.schema, p.rules)
}

// merge asks for one summary of several.
func (p *prompts) merge(summaries string, words int) string {
	return fmt.Sprintf("%s\n\nThe text above is summaries of the parts of a document, in order. Keep numbers in brackets such as [3]. Summarize the text in at most %d words. %s", summaries, words, p.rules)
}

// refine asks for a summary that covers one more part.
func (p *prompts) refine(summary, text string, words int) string {
	return fmt.Sprintf("Summary of a document up to here:\n%s\n\nText that follows there:\n%s\n\nSummarize both in at most %d words. %s", summary, text, words, p.rules)
}
