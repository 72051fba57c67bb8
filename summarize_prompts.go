package llmrun

import (
	"fmt"
	"strings"
)

// prompts are the prompts of a summary. All prompts of a kind begin alike, so that the beginning is prefilled once.
type prompts struct {
	rules string // what all of them ask for
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
	return prompts{rules: b.String()}
}

// part asks for the summary of a part.
func (p *prompts) part(text string, words int) string {
	return fmt.Sprintf("Summarize the text below in at most %d words. %s\n\n%s\n\nSummarize the text.", words, p.rules, text)
}

// merge asks for one summary of several.
func (p *prompts) merge(summaries string, words int) string {
	return fmt.Sprintf("Below are summaries of parts of a document, in order. Write one summary of the document in at most %d words. Keep numbers in brackets such as [3]. %s\n\n%s\n\nSummarize the text.", words, p.rules, summaries)
}

// refine asks for a summary that covers one more part.
func (p *prompts) refine(summary, text string, words int) string {
	return fmt.Sprintf("Below are the summary of a document up to here, and the text that follows there. Write a summary of both in at most %d words. %s\n\nSummary up to here:\n%s\n\nText:\n%s\n\nSummarize both.", words, p.rules, summary, text)
}
