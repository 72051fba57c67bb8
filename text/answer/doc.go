// Package answer reads what a model answers: the thoughts before the answer, the answer itself, and the calls of tools.
//
// A [Format] is found in the model's chat template, which spells the marks of its family: <think>, <tool_call>, [TOOL_CALLS]
// and others. A [Parser] takes an answer as it is generated, in pieces of any length, and returns its parts. The parts do not
// depend on where one piece ends and the next begins. A mark is held back until it is complete, and text that turns out to be no mark
// is returned unchanged.
//
// What families write inside of the marks of a call differs by more than the marks, and models mix the forms. So a call is read by what
// it begins with: a JSON object, a list, a call as in Python, XML elements, or a name. Arguments become JSON, in the order of the answer.
package answer

// These bounds keep an answer from taking memory without end. What exceeds them is text.
const (
	maxCalls     = 128     // of an answer
	maxArguments = 1 << 20 // bytes of a call
	maxHeld      = 2 << 20 // bytes that may be held back before the name of a tool is known
	maxNesting   = 64      // lists and objects inside of each other, in arguments
	maxName      = 256     // bytes of the name of a tool or an argument
	maxSpace     = 256     // bytes of white space before a mark that are no text
)
