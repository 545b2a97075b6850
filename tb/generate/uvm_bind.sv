// Every {{module}} of a design gets a probe; `bind PATH {{module}}_probe probe (.*);` is one alone.
bind {{module}} {{module}}_probe probe (.*);
