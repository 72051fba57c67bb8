package index

import "strings"

// stopWords are words of questions that tell little about what is asked for. In a few notes they can be rare by
// chance, so that the count of their passages does not say so. A question of nothing else is searched as it is.
var stopWords = func() map[uint64]bool {
	words := map[uint64]bool{}
	for word := range strings.FieldsSeq(`
		a about an and are as at be been but by can could did do does for from had has have he her him his how i if in into is it its
		many me much my not of on or our she should so some than that the their them there these they this to us was we were what when
		where which who whom whose why will with would you your
		aber als am an auf aus bei bin bis da das dass dem den der des die doch du durch ein eine einem einen einer er es für gab hat
		hatte haben ich ihr im ist ja kann man mein mit nach nicht noch nur oder ob sein sich sie sind so um und uns viel viele vom von
		vor wann war waren warum was welche welcher wem wen wer werden wie wieviel wir wird wo wohin zu zum zur über
		au aux avec ce ces cette combien comment dans de des du elle en est et il ils je la le les leur lui ma mais mes mon ne nous où
		par pas pour pourquoi quand que quel quelle quels qui quoi sa se ses son sont sur un une vous
		al como con cual cuando cuanto de del donde el ella en entre es esta este esto fue ha hay la las lo los más me mi muy no nos para
		pero por porque que quien se si sin sobre son su sus te tiene una uno y ya
		che chi come con cosa da dal dei del della di dove e gli il in la le lo ma nel non per perché più quale quando quanto sono sul un una
		aan dat de een en het hij hoe ik in is met naar niet of op te van voor waar waarom wanneer wat we wie zijn`) {
		s := splitter{}
		s.terms([]byte(word), func(term uint64) { words[term] = true })
	}
	return words
}()
