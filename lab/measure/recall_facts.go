package measure

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// fact is a statement in a document, with a question about it.
type fact struct {
	kind      string
	statement string // a line of the document
	question  string // what follows the document
	want      string // the right answer
}

// right reports whether an answer is right. Answers of copied codes may go on behind the code.
func (f *fact) right(answer string) bool {
	answer = strings.TrimSpace(answer)
	if f.kind == passkeyKind {
		return strings.HasPrefix(answer, f.want)
	}
	return answer == f.want
}

// passkeyKind is the kind of facts that name a code, a thing or a title. The question includes the
// beginning of the answer. Facts of noteKind are extracted from notes: the answer is a sentence.
const (
	passkeyKind = "passkeys"
	noteKind    = "notes"
)

// factKinds are all kinds.
var factKinds = []string{passkeyKind, noteKind}

// Words of statements. The bundled model was trained on them, and copies unknown names badly.
var (
	factNames = strings.Fields("Amy Eli Ella Nick Clara Tom Lucy Grace Alice Jonas Daisy Albert Penny Nora Rosa Leo " +
		"Martin Omar Tim Ruby Henry Wendy Carl Simon Felix Ben Sara Dan Anna Hugo Ivy Max")
	factVerbs  = strings.Fields("send check print review order write collect update sign copy")
	factKindly = strings.Fields("southern central yearly monthly shared open small final regional digital weekly old")
	factItems  = strings.Fields("documents receipts posters labels notes keys samples chairs")
	factDates  = []string{
		"Friday", "Monday", "Tuesday", "Wednesday", "Thursday", "Saturday", "Sunday", "March 20", "June 27",
		"24 February", "3 June", "the end of July", "the end of March", "next Friday", "7 March",
	}
)

// factMaker makes different facts.
type factMaker struct {
	random   *rand.Rand
	names    []string
	items    []string // what is done, without repetition
	passkeys int      // made
	actions  int
}

func newFactMaker(random *rand.Rand) *factMaker {
	m := &factMaker{random: random, names: shuffled(random, factNames)}
	m.items = shuffled(random, pairs(factKindly, factItems))
	return m
}

// pairs returns all pairs of words of two lists.
func pairs(a, b []string) (out []string) {
	for _, x := range a {
		for _, y := range b {
			out = append(out, x+" "+y)
		}
	}
	return out
}

// shuffled returns a shuffled copy of a list.
func shuffled(random *rand.Rand, list []string) []string {
	out := append([]string(nil), list...)
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// mostPasskeys is the number of different passkeys: each of three subjects belongs to a name.
func mostPasskeys() int { return 3 * len(factNames) }

// mostActions is the number of different action items.
func mostActions() int { return len(factKindly) * len(factItems) }

// action makes two facts that are extracted from the same action item of a note.
func (m *factMaker) action() (when, due fact) {
	name, date := m.names[m.actions%len(m.names)], m.pick(factDates)
	verb, item := m.pick(factVerbs), m.items[m.actions]
	m.actions++
	does := fmt.Sprintf("%s will %s the %s by %s.", name, verb, item, date)
	when = fact{kind: noteKind, statement: "Action: " + does, want: does, question: noteQuestion(fmt.Sprintf("When will %s %s the %s?", name, verb, item))}
	due = fact{
		kind: noteKind, statement: when.statement, want: fmt.Sprintf("The %s are due by %s.", item, date),
		question: noteQuestion(fmt.Sprintf("When are the %s due?", item)),
	}
	return when, due
}

// passkey makes a fact whose answer is a code, a thing or a title.
func (m *factMaker) passkey() fact {
	n := m.passkeys
	m.passkeys++
	name, begin, value := m.names[n/3%len(m.names)], "", ""
	switch n % 3 {
	case 0:
		begin, value = "secret code", fmt.Sprint(10000+m.random.IntN(90000))
	case 1:
		begin, value = "favorite thing", "a "+m.pick([]string{"shiny key", "glass bottle", "golden coin", "brown basket", "sweet cake", "paper map"})
	default:
		value = fmt.Sprintf("%q", m.pick(strings.Fields("young careful cheerful gentle small"))+" "+
			m.pick(strings.Fields("blue brown black golden orange"))+" "+m.pick(strings.Fields("otter pony bee fox")))
		begin, name = "title of the note", "for "+name
	}
	if n%3 < 2 {
		name = "of " + name
	}
	return fact{
		kind: passkeyKind, statement: fmt.Sprintf("The %s %s is %s.", begin, name, value), want: value,
		question: fmt.Sprintf("<|im_end|>\n<|im_start|>user\nWhat is the %s %s?<|im_end|>\n<|im_start|>assistant\nThe %s %s is", begin, name, begin, name),
	}
}

// noteQuestion returns what follows a note to ask about it.
func noteQuestion(question string) string {
	return "\n\n" + question + "<|im_end|>\n<|im_start|>assistant\n"
}

func (m *factMaker) pick(from []string) string { return from[m.random.IntN(len(from))] }
