-- Questions with ids, passes with a scope, and message ids that belong to their sender.

-- questions and answers

-- passes and agents

-- mail

-- limits
