module findings

go 1.26.0
