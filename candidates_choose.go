package llmrun

// Best returns the candidate with the greatest score, the first one of equals; nil without candidates.
func Best(candidates []*Candidate) (best *Candidate) {
	for _, c := range candidates {
		if best == nil || c.Score > best.Score {
			best = c
		}
	}
	return best
}

// Vote takes the most frequent answer of the candidates and returns the best candidate that gives it, and how many
// give it. answer finds the answer in a text; a candidate without one has no vote. Of answers with as many
// votes, that of the candidate with the greatest score wins. If no candidate has a vote, Vote returns nil.
func Vote(candidates []*Candidate, answer func(text string) (string, bool)) (winner *Candidate, votes int) {
	given := map[string][]*Candidate{}
	for _, c := range candidates {
		if a, ok := answer(c.Text); ok {
			given[a] = append(given[a], c)
		}
	}
	for _, same := range given {
		best := Best(same)
		if len(same) > votes || len(same) == votes && better(best, winner) {
			winner, votes = best, len(same)
		}
	}
	return winner, votes
}

// better reports whether a candidate wins against another one with as many votes.
func better(a, b *Candidate) bool {
	return a.Score > b.Score || a.Score == b.Score && a.Index < b.Index
}
