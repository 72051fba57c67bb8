package jinja

// at is the source line of a node.
type at int

func (a at) line() int { return int(a) }

// expr is a node that yields a value.
type expr interface{ line() int }

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
	// logicalExpr yields one of its operands, as Python's and/or do.
	logicalExpr struct {
		at
		and  bool
		l, r expr
	}
	notExpr struct {
		at
		x expr
	}
	// compareExpr is a chain such as a < b <= c; each operand is evaluated once.
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
		x, low, high, stride expr // bounds are nil where left out
	}
	callExpr struct {
		at
		fn   expr
		args arguments
	}
	// filterExpr has a nil x at the head of a filter block's or set block's chain.
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

type comparison struct {
	op string // == != < <= > >= in "not in"
	x  expr
}

type arguments struct {
	positional []expr
	keywords   []keywordExpr
	star       expr // *args, nil without
	doubleStar expr // **kwargs, nil without
}

type keywordExpr struct {
	name  string
	value expr
}

// target is what a set, for or with assigns to.
type target interface{ line() int }

type (
	nameTarget struct {
		at
		name string
	}
	// namespaceTarget is {% set ns.attr = … %}.
	namespaceTarget struct {
		at
		name, attr string
	}
	tupleTarget struct {
		at
		items []target
	}
)

// stmt is a node that acts: it writes text or binds names.
type stmt interface{ line() int }

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
	// scopeStmt runs its body in a scope of its own: {% block %}, whose names
	// come from the top level unless scoped, and {% generation %}.
	scopeStmt struct {
		at
		fromRoot bool
		body     []stmt
	}
	breakStmt    struct{ at }
	continueStmt struct{ at }
)

type branch struct {
	test expr
	body []stmt
}

// macroDef is a macro's or call block's definition.
type macroDef struct {
	name   string
	params []param
	body   []stmt
	// The body mentions these names, so a call binds them.
	usesCaller, usesKwargs, usesVarargs bool
}

type param struct {
	name     string
	fallback expr // nil where the argument has no default
}
