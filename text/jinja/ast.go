package jinja

// at is the source line of a node.
type at int

func (a at) line() int { return int(a) }

// expr is a node that evaluates to a value.
type expr interface{ line() int }

// The types of expressions. Each has the fields of its syntax. x is the operand to which
// the construct applies.
type (
	constant struct {
		at
		value any
	}
	nameExpr struct {
		at
		name string
	}
	listExpr struct {
		at
		items []expr
	}
	tupleExpr struct {
		at
		items []expr
	}
	dictExpr struct {
		at
		keys, values []expr
	}
	unaryExpr struct {
		at
		op string // "-" or "+"
		x  expr
	}
	binaryExpr struct {
		at
		op   string // + - * / // % **
		l, r expr
	}
	// logicalExpr evaluates to one of its operands, like Python's and and or.
	logicalExpr struct {
		at
		and  bool
		l, r expr
	}
	notExpr struct {
		at
		x expr
	}
	// compareExpr is a chain such as a < b <= c. Each operand is evaluated at most
	// once.
	compareExpr struct {
		at
		first expr
		rest  []comparison
	}
	concatExpr struct {
		at
		parts []expr
	}
	conditionalExpr struct {
		at
		test, then, otherwise expr // otherwise is nil without an else
	}
	attributeExpr struct {
		at
		x    expr
		name string
	}
	subscriptExpr struct {
		at
		x, index expr
	}
	sliceExpr struct {
		at
		x, low, high, stride expr // an omitted bound is nil
	}
	callExpr struct {
		at
		fn   expr
		args arguments
	}
	// filterExpr has a nil x if it is the first filter of a filter block or set block.
	filterExpr struct {
		at
		x    expr
		name string
		args arguments
	}
	testExpr struct {
		at
		x    expr
		name string
		args arguments
	}
)

// comparison is one operator of a chain and its right operand.
type comparison struct {
	op string // == != < <= > >= in "not in"
	x  expr
}

// arguments is the argument list of a call, filter or test.
type arguments struct {
	positional []expr
	keywords   []keywordExpr
	star       expr // *args, or nil
	doubleStar expr // **kwargs, or nil
}

// keywordExpr is a keyword argument.
type keywordExpr struct {
	name  string
	value expr
}

// target is the left side of an assignment by set, for or with.
type target interface{ line() int }

// The types of targets.
type (
	nameTarget struct {
		at
		name string
	}
	// namespaceTarget is the target of {% set ns.attr = … %}.
	namespaceTarget struct {
		at
		name, attr string
	}
	tupleTarget struct {
		at
		items []target
	}
)

// stmt is a node that writes text or binds names.
type stmt interface{ line() int }

// The types of statements. Each corresponds to one tag, except textStmt (literal text) and
// outputStmt ({{ … }}).
type (
	textStmt struct {
		at
		text string
	}
	outputStmt struct {
		at
		x expr
	}
	ifStmt struct {
		at
		branches  []branch
		otherwise []stmt
	}
	forStmt struct {
		at
		target    target
		iter      expr
		test      expr // nil without an if clause
		recursive bool
		body      []stmt
		otherwise []stmt
	}
	setStmt struct {
		at
		target target
		value  expr
	}
	setBlockStmt struct {
		at
		target target
		filter expr // nil without filters
		body   []stmt
	}
	macroStmt struct {
		at
		def *macroDef
	}
	callBlockStmt struct {
		at
		call   *callExpr
		caller *macroDef
	}
	filterBlockStmt struct {
		at
		filter expr
		body   []stmt
	}
	withStmt struct {
		at
		targets []target
		values  []expr
		body    []stmt
	}
	// scopeStmt executes its body in a new scope. It represents {% block %} and {%
	// generation %}. The parent scope is the root scope if fromRoot is set, which is
	// the case for a block without "scoped".
	scopeStmt struct {
		at
		fromRoot bool
		body     []stmt
	}
	breakStmt    struct{ at }
	continueStmt struct{ at }
)

// branch is an if or elif branch.
type branch struct {
	test expr
	body []stmt
}

// macroDef is the definition of a macro or of the body of a call block.
type macroDef struct {
	name   string
	params []param
	body   []stmt
	// These fields report that the body mentions caller, kwargs or varargs. A call
	// binds only those names.
	usesCaller, usesKwargs, usesVarargs bool
}

// param is a parameter of a macro.
type param struct {
	name     string
	fallback expr // default value, or nil
}
