// Package token turns text into token ids and ids into text.
//
// A tokenizer comes from a GGUF file's metadata ([FromGGUF]) or from a Hugging
// Face tokenizer.json with the files beside it ([FromJSON]). Both describe the
// same pipeline, and one [Tokenizer] runs it:
//
//	text ── added tokens ── normalizer ── splitters ── model ── ids
//	        <|im_end|>      NFC, "▁"      words        merges, Viterbi
//
// Added tokens are looked for first. A special one that a user's text merely
// spells stays text unless the caller allows otherwise
// ([EncodeOptions.AllowSpecial]): a prompt cannot end its own turn.
//
// The splitters stand for the regular expressions of the vocabularies, but run
// without backtracking (see pattern), so time is linear in the text, whatever
// the text. The models are byte-pair encoding, of which SentencePiece's scored
// variant is a special case (see scoredPairs), and Unigram.
//
// What no piece covers is spelled byte by byte where the vocabulary can do it,
// so any bytes survive the way there and back: [Tokenizer.AppendBytes] returns
// them, [Tokenizer.Decode] returns text. A [Decoder] writes a stream.
//
// A description that contradicts itself, or uses a construct that is not
// implemented, is refused when it is read, with an error that names the field.
package token
