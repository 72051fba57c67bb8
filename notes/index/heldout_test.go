package index

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// heldOut are questions about the demo's notes in other words than those on which the stop words were chosen. They were written from
// the notes, before any of them was asked.
var heldOut = []demoQuestion{
	{File: "note-01.md", Question: "Who is responsible for the picnic permit?"},
	{File: "note-01.md", Question: "What is Jonas supposed to look at before Sunday?"},
	{File: "note-01.md", Question: "How many workers are hired for the brochure?"},
	{File: "note-01.md", Question: "What name does the Tarzan shop get?"},
	{File: "note-02.md", Question: "Which colour does the jacket of Kevin have?"},
	{File: "note-02.md", Question: "At what time does the tram leave for Josephs?"},
	{File: "note-02.md", Question: "How can I reach Ivy by phone?"},
	{File: "note-02.md", Question: "Tell me Dan's order number."},
	{File: "note-03.md", Question: "How much money goes to the schedule?"},
	{File: "note-03.md", Question: "Whose job is it to sign the survey?"},
	{File: "note-03.md", Question: "Who takes care of testing the photos?"},
	{File: "note-04.md", Question: "How many books are bought for the laboratory?"},
	{File: "note-04.md", Question: "To which city was the summer fundraiser moved?"},
	{File: "note-04.md", Question: "What has Lucy got to test?"},
	{File: "note-04.md", Question: "Which company does the Blum menu?"},
	{File: "note-05.md", Question: "Who phones Hansen and Baker?"},
	{File: "note-05.md", Question: "Which bank was chosen for digital parking?"},
	{File: "note-05.md", Question: "What happens to the price of the old boat?"},
	{File: "note-05.md", Question: "Who prepares the tools, and by when?"},
	{File: "note-06.md", Question: "What did they name the Rome magazine?"},
	{File: "note-06.md", Question: "Which van project was cancelled?"},
	{File: "note-06.md", Question: "What's Adam's password?"},
	{File: "note-06.md", Question: "What is the name of Tim's donkey?"},
	{File: "note-06.md", Question: "Who sends an offer to Park and Hughes?"},
	{File: "note-07.md", Question: "In which city is Monika living now?"},
	{File: "note-07.md", Question: "On what day is the joint concert?"},
	{File: "note-07.md", Question: "Who owns a red camera?"},
	{File: "note-08.md", Question: "Until when is the contract delayed?"},
	{File: "note-08.md", Question: "How many tables were ordered for the outdoor kitchen?"},
	{File: "note-08.md", Question: "Who looks after the posters of the online van?"},
	{File: "note-09.md", Question: "What remains unchanged about the Finn bridge?"},
	{File: "note-09.md", Question: "Which travel agency should be called about insurance?"},
	{File: "note-09.md", Question: "What is the price of the regional meal?"},
	{File: "note-09.md", Question: "When does the school printer open?"},
	{File: "note-10.md", Question: "How will the outdoor roof be called from now on?"},
	{File: "note-10.md", Question: "Who translates the draft?"},
	{File: "note-10.md", Question: "What is planned for the school parking?"},
	{File: "note-11.md", Question: "To whom was the southern festival handed over?"},
	{File: "note-11.md", Question: "Until when must the keys be ordered?"},
	{File: "note-11.md", Question: "Which offer does Hazel collect?"},
	{File: "note-12.md", Question: "In which month does the summer van begin?"},
	{File: "note-12.md", Question: "What fruit does Omar prefer?"},
	{File: "note-12.md", Question: "What's the telephone number of the gray gate?"},
	{File: "note-12.md", Question: "Who is printing the keys?"},
	{File: "note-12.md", Question: "How long is the database in Paris tested?"},
}

// TestWordsFindTheDemosNotesByOtherQuestions asks the questions that took no part in the choice of stop words.
func TestWordsFindTheDemosNotesByOtherQuestions(t *testing.T) {
	x, _, texts := demoIndex(t)
	for _, q := range heldOut {
		require.NotEmpty(t, texts[q.File], q.File)
	}
	words := func(q *demoQuestion) Query { return Query{Text: q.Question} }
	one, three := rightAmong(t, x, heldOut, 1, words), rightAmong(t, x, heldOut, 3, words)
	t.Logf("%d questions: the right note is the first hit of %.1f %%, among the first three of %.1f %%", len(heldOut), 100*one, 100*three)
	require.GreaterOrEqual(t, three, 0.85)
}
