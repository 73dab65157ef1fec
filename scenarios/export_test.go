package scenarios

// Uniform is what decides which transactions fail, for tests to predict them.
var Uniform = uniform
