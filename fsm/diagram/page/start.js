// Everything above defines; this runs.
const DATA = JSON.parse(byId("data").textContent);
const machine = machineOf(DATA.machine);
const page = DATA.call ? explain(machine, DATA.call, DATA.budget, DATA.frames, DATA.first) : play(machine, DATA.usual, DATA.budget);
