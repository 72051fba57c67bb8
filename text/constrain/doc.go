// Package constrain keeps an answer within a formal language: JSON of a schema, a regular expression, a grammar.
//
// A [Grammar] describes the language: [JSON], [Schema], [Regexp] and [GBNF] compile one. A [Vocabulary] holds the
// tokens of a model as bytes. A [Matcher] joins both, and a [Cursor] follows one answer:
//
//	grammar, err := constrain.Schema([]byte(`{"type": "object", "properties": {"age": {"type": "integer"}}}`), constrain.SchemaOptions{})
//	matcher, err := constrain.NewMatcher(grammar, vocabulary, nil)
//	cursor := matcher.Begin()
//	mask, err := cursor.Mask(tokensLeft) // tokens that may follow
//	err = cursor.Accept(id)
//
// # Derivatives
//
// The state of an automaton is an expression: what may still follow. Reading a byte replaces the expression by its
// derivative. Expressions are interned, so that equal states are the same number, and derivatives are computed
// when they are first needed and kept. A sequence whose first part is a rule is a stack of
// what follows the rule; this is how nesting without a limit needs no other mechanism. A repetition holds
// its bounds as numbers, so that a bound of a million costs as much as one of two. Intersections of
// regular expressions, such as a pattern and a length, need no construction in advance.
//
// # Masks
//
// A mask has a bit for each token that may follow. It is found by walking the trie of the vocabulary and the
// derivatives together, and is kept for the state. These properties hold:
//
//   - A token is allowed only if the answer can be completed behind it, with tokens that exist. A mask is therefore
//     never empty before the language ends.
//   - A token that ends the generation is allowed exactly where the answer is complete.
//   - With n tokens left, a token is allowed only if at most n-1 more complete the answer. The number of tokens
//     that complete a state is bounded by its expression: by the fewest tokens that spell a literal, summed over a sequence.
//   - Where the language leaves no choice of the next bytes, one token is allowed, the longest that spells
//     them. Several of these can be processed in one pass; see [Cursor.Forced].
//
// # Limits
//
// Schemas and grammars come from requests. The source, its nesting and its number of expressions are bounded when it is
// compiled. Steps and memory are bounded while it is used: a language that needs more gives an error that wraps [ErrComplex].
// What a schema says and this package does not implement is refused, with the path of the keyword.
//
// # Reading the code
//
// Begin with machine.step in machine.go. cost.go bounds what is left to write, matcher.go makes masks. schema*.go,
// regexp.go and gbnf.go compile the languages.
package constrain
